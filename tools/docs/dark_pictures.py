"""Pictures of the site in the reader's theme: NAME-dark.png stands in for NAME.png where it exists."""

from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform


class DarkPictures(SphinxTransform):
    """Puts the dark picture beside the light one; furo's style sheet shows one of them."""

    default_priority = 10  # before Sphinx collects the pictures

    def apply(self, **_: object) -> None:
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            light = Path(image["uri"])
            dark = light.with_name(f"{light.stem}-dark{light.suffix}")
            if (folder / dark).exists():
                other = image.copy()
                other["uri"] = str(dark)
                image["classes"].append("only-light")
                other["classes"].append("only-dark")
                image.parent.insert(image.parent.index(image) + 1, other)
