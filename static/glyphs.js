// How tokens and numbers are written. Tokens are untrusted text: they only ever reach canvas text or textContent.

// Control, bidirectional, zero-width and other invisible characters get a visible mark.
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\ufffb]|\udb40[\udc00-\udfff]/g;
const NAMED = { "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE",
  "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI",
  "\u2069": "PDI", "\ufeff": "BOM", "\u00ad": "SHY", "\u2060": "WJ", "\u2028": "LSEP", "\u2029": "PSEP" };

function mark(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return "\u27e8" + (NAMED[character] ?? code.toString(16).toUpperCase()) + "\u27e9";
}

// One token as a label: spaces and line ends visible.
export function label(text) {
  if (text === undefined || text === null) return "\u27e8?\u27e9";
  if (text === "") return "\u2205";
  return text
    .replace(/\r\n|\n|\r/g, "\u23ce").replace(/\t/g, "\u21e5").replace(/ /g, "\u00b7")
    .replace(/\u00a0/g, "\u237d").replace(INVISIBLE, mark);
}

// Running text: line ends and spaces stay what they are, the rest of the invisible is marked.
export function prose(text) {
  return text.replace(/\r\n?/g, "\n").replace(INVISIBLE, (c) => (c === "\n" || c === "\t" ? c : mark(c)));
}

export const DASH = "\u2014";
const known = (value) => typeof value === "number" && Number.isFinite(value);

export function number(value, digits = 2) {
  return known(value) ? value.toFixed(digits) : DASH;
}

export function percent(value, digits = 0) {
  return known(value) ? (100 * value).toFixed(digits) + "%" : DASH;
}

// A probability given as a log-probability: two significant places, never a false 0 or 1.
export function probability(logprob) {
  if (!known(logprob)) return DASH;
  const p = Math.exp(logprob);
  if (p > 0.9995) return "1.00";
  if (p > 0.995) return p.toFixed(3).slice(1);
  if (p >= 0.0095) return p.toFixed(2).slice(1);
  if (p >= 0.00095) return p.toFixed(3).slice(1);
  return "<.001";
}

export function milliseconds(seconds) {
  if (!known(seconds)) return DASH;
  const ms = seconds * 1000;
  return (ms >= 100 ? ms.toFixed(0) : ms >= 1 ? ms.toFixed(1) : ms.toFixed(2)) + " ms";
}

export function bytes(size) {
  if (!known(size)) return DASH;
  if (size >= 1e9) return (size / 1e9).toFixed(1) + " GB";
  return size >= 1e6 ? (size / 1e6).toFixed(0) + " MB" : Math.ceil(size / 1e3) + " kB";
}

// How many: 135 M, 12.3 M, 4 B.
export function count(value) {
  const [unit, size] = value >= 1e9 ? [" B", value / 1e9] : value >= 1e6 ? [" M", value / 1e6] : ["", value];
  return size.toFixed(unit && size < 100 ? 1 : 0) + unit;
}

export function plural(count, noun, nouns = noun + "s") {
  return count + " " + (count === 1 ? noun : nouns);
}
