// In the page: how long an input event takes to the frame that shows what came of it. Events are real ones, so the clock
// starts at their own timestamp; it stops in a task that was posted from the frame's requestAnimationFrame, which runs
// once the frame has been produced.
window.timing = {
  samples: [],
  waiting: 0,
  resolve: null,
  heard: new Set(),

  // Counts events of this type from now on, and no others.
  watch(type) {
    this.type = type;
    if (this.heard.has(type)) return;
    this.heard.add(type);
    addEventListener(type, (event) => {
      if (type !== this.type) return;
      this.waiting += 1;
      this.painted().then((now) => {
        this.samples.push(now - event.timeStamp);
        this.waiting -= 1;
        if (!this.waiting) this.resolve?.();
      });
    }, { capture: true, passive: true });
  },

  painted() {
    return new Promise((done) => requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => done(performance.now());
      port2.postMessage(0);
    }));
  },

  settled() {
    return this.waiting ? new Promise((done) => { this.resolve = done; }) : null;
  },

  take() {
    return this.samples.splice(0);
  },

  // The first frame in which the tree of a round stands on the canvas, in ms since the navigation began.
  firstTree() {
    return new Promise((done) => {
      const look = () => (window.canopy?.explore?.tree?.round ? this.painted().then(done) : requestAnimationFrame(look));
      look();
    });
  },

  // From a chosen file to the painted run.
  openFile(input) {
    return new Promise((done, failed) => input.addEventListener("change", async () => {
      try {
        const began = performance.now();
        const { RunLog } = await import(new URL("canopy/run_log.js", location.href));
        canopy.explore.open(RunLog.fromLines("bench-" + began, await input.files[0].text()), 0);
        done((await this.painted()) - began);
      } catch (error) { failed(error); }
    }, { once: true }));
  },
};
