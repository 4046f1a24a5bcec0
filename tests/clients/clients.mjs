// The clients of npm against the server at the address in argv: what they give, as JSON.
import * as deepl from "deepl-node";
import { translate } from "libretranslate";

const [address, key] = process.argv.slice(2);
const text = "amber birch cedar";

const refusal = async (promise) => {
  try {
    await promise;
    return "nothing was thrown";
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
};

const client = new deepl.DeepLClient(key, { serverUrl: address });
const found = {
  libretranslate: await translate({ query: text, source: "en", target: "de", apiurl: address }),
  libretranslate_detected: await translate({ query: text, target: "de", apiurl: address }),
  libretranslate_unknown: await refusal(translate({ query: text, target: "xx", apiurl: address })),
  deepl: await client.translateText(text, null, "de"),
  deepl_list: await client.translateText([text, " ", "heath"], "en", "pt-BR"),
  deepl_xml: await client.translateText(`amber <x id="1"></x> birch`, "en", "de", {
    tagHandling: "xml",
    ignoreTags: ["x"],
  }),
  deepl_sources: (await client.getSourceLanguages()).map((each) => each.code),
  deepl_targets: (await client.getTargetLanguages()).map((each) => each.code),
  deepl_limit_reached: (await client.getUsage()).anyLimitReached(),
  deepl_glossary_pairs: await client.getGlossaryLanguagePairs(),
  deepl_glossary: await refusal(
    client.createGlossary("words", "en", "de", new deepl.GlossaryEntries({ entries: { amber: "x" } })),
  ),
  deepl_formality: await refusal(client.translateText(text, "en", "de", { formality: "more" })),
  deepl_unknown: await refusal(client.translateText(text, "en", "fr")),
  deepl_wrong_server: await refusal(client.rephraseText(text, "en-US")),
};
console.log(JSON.stringify(found));
