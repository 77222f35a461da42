// The tree-attention mask on a canvas: rows read, columns are read; the text before the tree is one column.

import { make } from "../dom.js";
import { lineage } from "./measures.js";
import { cousin } from "./nodes.js";

const FADED = 0.28;

export function drawMask(host, { log, round, show }) {
  const canvas = host.querySelector("canvas") ?? make("canvas");
  if (!canvas.parentNode) host.replaceChildren(canvas);
  const { clientWidth: width, clientHeight: height } = host;
  if (!width || !height) return;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.setAttribute("role", "img");
  const row = show.row === "end" ? round.end : show.row === "cousin" ? cousin(round) : null;
  canvas.setAttribute("aria-label", describe(log, round, row));
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  draw(pen, { log, round, row, width, height, style: getComputedStyle(host) });
}

function describe(log, round, row) {
  if (row === null) return `Attention mask of ${round.drafted + 1} tokens: each reads the text, its ancestors and itself.`;
  return "Attention mask: " + log.label(round.tree.token[row]) + " reads the text and " +
    lineage(round, row).map((node) => log.label(round.tree.token[node])).join(" ");
}

function draw(pen, { log, round, row, width, height, style }) {
  const colour = (name) => style.getPropertyValue("--cy-" + name).trim();
  const type = parseFloat(style.fontSize) * 0.8;
  const count = round.drafted + 1;
  const names = Math.min(type * 8, width * 0.24);
  const numbers = type * 2.6;
  const past = Math.max(type * 3, width * 0.06);
  const top = type * 1.8;
  const left = names + numbers + past + 6;
  const cell = { x: Math.min(26, (width - left) / count), y: Math.min(26, (height - top) / count) };
  const font = Math.min(type, cell.y + 1);
  const gap = Math.min(cell.x, cell.y) > 6 ? 1 : 0;
  pen.textBaseline = "middle";
  const write = (text, x, y, align, size = font, ink = "ink") => {
    pen.font = `${size}px ${style.getPropertyValue("--cy-mono")}`;
    pen.textAlign = align;
    pen.fillStyle = colour(ink);
    pen.fillText(text, x, y);
  };
  write("position", names + numbers, top / 2, "right", type * 0.85, "muted");
  write("text", left - past / 2 - 3, top / 2, "center", type * 0.85, "muted");
  write("the tree\u2019s tokens", left, top / 2, "left", type * 0.85, "muted");
  for (let node = 0; node < count; node++) {
    const y = top + node * cell.y;
    const seen = new Set(lineage(round, node));
    const bright = row === null || row === node;
    pen.globalAlpha = bright ? 1 : FADED;
    const legible = cell.y > 6 || row === node;
    if (legible) {
      const size = row === node ? Math.max(font, type * 0.9) : font;
      write(fit(pen, log.label(round.tree.token[node]), names - 8, size, style), names - 6, y + cell.y / 2, "right", size);
      write(String(round.cache_before + round.depth[node]), names + numbers, y + cell.y / 2, "right", size, "muted");
    }
    pen.fillStyle = colour("accent");
    pen.fillRect(left - past - 2, y, past - 4, cell.y - gap);
    for (let other = 0; other < count; other++) {
      pen.fillStyle = colour(other === node ? "ink" : seen.has(other) ? "accent" : "sunken");
      pen.fillRect(left + other * cell.x, y, cell.x - gap, cell.y - gap);
    }
  }
  pen.globalAlpha = 1;
}

function fit(pen, text, room, size, style) {
  pen.font = `${size}px ${style.getPropertyValue("--cy-mono")}`;
  let shown = text.slice(0, 40);
  while (shown.length > 1 && pen.measureText(shown).width > room) shown = shown.slice(0, -2) + "\u2026";
  return shown;
}
