"""The plural forms of languages as gettext counts them, for catalogues that do not say theirs."""

from dragoman.text.records import primary

_ONE = "nplurals=1; plural=0;"
_TWO = "nplurals=2; plural=(n != 1);"
_FROM_TWO = "nplurals=2; plural=(n > 1);"
_EAST_SLAVIC = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);"
)
_CZECH = "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;"
_FORMS: dict[str, str] = {
    "ja zh ko vi th id ms lo my ka dz km jv su wo bo ii ig": _ONE,
    "fr fur oc wa mg ln ti am fil tl ak mi hy tg uz fa": _FROM_TWO,
    "ru uk be sr hr bs sh": _EAST_SLAVIC,
    "cs sk": _CZECH,
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lv": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);",
    "ro": "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
    "ga": "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n>2 && n<7 ? 2 : n>6 && n<11 ? 3 : 4);",
    "cy": "nplurals=4; plural=(n==1 ? 0 : n==2 ? 1 : (n != 8 && n != 11) ? 2 : 3);",
    "gd": "nplurals=4; plural=(n==1 || n==11) ? 0 : (n==2 || n==12) ? 1 : (n > 2 && n < 20) ? 2 : 3;",
    "is": "nplurals=2; plural=(n%10!=1 || n%100==11);",
    "mk": "nplurals=2; plural=(n==1 || n%10==1 ? 0 : 1);",
    "mt": "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : n%100>10 && n%100<20 ? 2 : 3);",
    "ar": (
        "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 "
        ": n%100>=11 && n%100<=99 ? 4 : 5);"
    ),
}  # fmt: skip
FORMS = {language: forms for languages, forms in _FORMS.items() for language in languages.split()}


def plural_forms(language: str) -> str:
    """The field Plural-Forms of a catalogue in a language (BCP 47); two forms if it is not known."""
    if language.replace("_", "-").lower() == "pt-br":
        return _FROM_TWO
    return FORMS.get(primary(language), _TWO)
