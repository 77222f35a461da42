// Gradio counts the seconds of a pending event in a loop of animation frames, on show or not. The loop that began while
// the page was loading never ends, because its counter is taken away before it is told so: every open page would do a
// frame of work sixty times a second for good, beside the model on the same processor. Once a second is enough.
(() => {
  const frame = window.requestAnimationFrame.bind(window);
  const COUNTS_SECONDS = /\(performance\.now\(\)-\w+\(\w+\)\)\/1e3/;
  window.requestAnimationFrame = (callback) =>
    COUNTS_SECONDS.test(callback) ? setTimeout(() => frame(callback), 1000) : frame(callback);
})();
