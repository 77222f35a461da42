// The tree as it is seen, as a picture: the same drawing on another pen.

import { SvgPen } from "./svg_pen.js";

const SHARP = 2; // pixels of the PNG to one of the page

function paint(tree, pen) {
  pen.fillStyle = tree.colour.surface;
  pen.fillRect(0, 0, tree.size.width, tree.size.height);
  tree.paint(pen);
}

export function drawingOf(explore) {
  const { tree } = explore;
  const pen = new SvgPen(tree.size.width, tree.size.height);
  pen.describe(`Draft tree, round ${explore.current + 1}`, tree.summary(explore.current + 1, explore.log.rounds.length));
  paint(tree, pen);
  return pen.toString();
}

export function pictureOf(explore) {
  const { tree } = explore;
  const canvas = document.createElement("canvas");
  canvas.width = tree.size.width * SHARP;
  canvas.height = tree.size.height * SHARP;
  const pen = canvas.getContext("2d");
  pen.scale(SHARP, SHARP);
  paint(tree, pen);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}
