// Runs the modules of an exported page in Node.js: each line of standard input is a task, and gets a line.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const page = pathToFileURL(`${process.argv[2]}/`);
const fromDisk = async (url) => new Uint8Array(readFileSync(url));
const tasks = {
  /** The ids of texts, and the texts of ids. */
  async tokenize({ vocabulary, texts, ids }) {
    const { Tokenizer } = await import(new URL("tokenizer.js", page));
    const tokenizer = new Tokenizer(new Uint8Array(Buffer.from(vocabulary, "base64")));
    return [texts.map((text) => tokenizer.encode(text)), ids.map((one) => tokenizer.decode(one))];
  },
  /** The translations of texts, and the alternatives of each. */
  async translate({ texts, site }) {
    const { alternatives, load, translate } = await import(pathToFileURL(`${site}/dragoman.js`));
    const model = await load(undefined, fromDisk);
    const results = [];
    for (const text of texts) results.push([await translate(model, text), alternatives(model, text)]);
    return results;
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { task, ...values } = JSON.parse(line);
  const answer = await tasks[task](values).catch((error) => `${error.name}: ${error.message}`);
  console.log(JSON.stringify(answer));
}
