// A run as one HTML file that replays with no server and no network: this page's own modules and styles, inlined.
//
// Modules stand in an import map as data: addresses, under names that are valid there. The run stands in a JSON block
// in which no `<` is left, so nothing in it can end the block; a policy forbids every request, and every script that
// does not carry a nonce drawn here.

import { randomHex } from "./ticket.js";

const ENTRY = "replay.js";
const IMPORT = /((?:\bfrom|\bimport)\s*\(?\s*)"(\.{1,2}\/[\w./-]+\.js)"/g;
const INCLUDE = /<!-- include ([\w-]+\.html) -->/g;
const ROOT = "canopy:/";

const inJson = (text) => text.replaceAll("<", "\\u003c");

async function textOf(name) {
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new Error(`${name} could not be fetched (status ${answer.status}).`);
  return answer.text();
}

// Every module that the entry needs, also those that it imports later, by its path.
async function modules() {
  const found = new Map();
  const visit = async (name) => {
    if (found.has(name)) return;
    found.set(name, "");
    const text = await textOf(name);
    const path = (wanted) => new URL(wanted, ROOT + name).pathname.slice(1);
    found.set(name, text.replace(IMPORT, (_, before, wanted) => `${before}"${ROOT}${path(wanted)}"`));
    await Promise.all([...text.matchAll(IMPORT)].map((match) => visit(path(match[2]))));
  };
  await visit(ENTRY);
  return found;
}

async function template(name) {
  const text = await textOf(name);
  const included = await Promise.all([...text.matchAll(INCLUDE)].map((match) => template(match[1])));
  return text.replace(INCLUDE, () => included.shift());
}

function asData(text) {
  const bytes = new TextEncoder().encode(text);
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return "data:text/javascript;base64," + btoa(binary);
}

async function styles() {
  const links = [...document.querySelectorAll('link[rel="stylesheet"][href*="canopy/"]')];
  const names = links.map((link) => new URL(link.href).pathname.split("/").pop());
  return (await Promise.all(names.map(textOf))).join("\n");
}

// `place` is {round, node, view}, where it opens.
export async function standalonePage(log, name, place) {
  const [found, style, body] = await Promise.all([modules(), styles(), template("explore.html")]);
  const imports = Object.fromEntries([...found].map(([module, text]) => [ROOT + module, asData(text)]));
  const nonce = randomHex();
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'`;
  const dark = document.body.classList.contains("dark") ? " dark" : "";
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>A run, replayed by Canopy</title>
<style nonce="${nonce}">${style.replaceAll("</style", "<\\/style")}</style>
<script nonce="${nonce}" type="importmap">${inJson(JSON.stringify({ imports }))}</script>
</head>
<body class="gradio-container cy-replay${dark}">
<div id="cy-replay" role="main">
${body}
</div>
<script nonce="${nonce}" type="application/json" id="cy-trace">${inJson(log.lines())}</script>
<script nonce="${nonce}" type="application/json" id="cy-place">${inJson(JSON.stringify({ name, place }))}</script>
<script nonce="${nonce}" type="module">import "${ROOT}${ENTRY}";</script>
</body>
</html>
`;
}
