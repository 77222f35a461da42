// A finished run set against plain decoding of the same prompt, reckoned here from what both recorded. The conventions
// are those of `comparison` in decoding/run.py, which judges the runs that the server makes.

import { commonLength } from "./lanes.js";

// {speedup, lossless}: the ratio of tokens per second, each run's by its own seconds, and whether both wrote the same.
// `lossless` is null for tokens drawn at random; all of it is null where one of the two did not come to its end.
export function judged(log, plain) {
  if (![log, plain].every(({ summary }) => summary && summary.finish !== "interrupted")) return null;
  const [ours, theirs] = [log, plain].map((one) => one.figures().tokens_per_second);
  return { speedup: ours > 0 && theirs > 0 ? ours / theirs : null, lossless: log.header.temperature > 0 ? null : lossless(log, plain) };
}

function lossless(log, plain) {
  const [ours, theirs] = [log, plain].map(({ summary }) => summary.output_ids);
  const common = commonLength(ours, theirs);
  if (common === ours.length && common === theirs.length) return { identical: true, first_divergence: null, margin: null };
  const best = plain.rounds[common - 1]?.verdict.top_logprob[0] ?? []; // the round in which plain decoding wrote that token
  return { identical: false, first_divergence: common, margin: best.length > 1 ? best[0] - best[1] : null };
}
