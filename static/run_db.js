// Runs in this browser's own database, bounded: what each is in one store, its trace in another, so that a list of runs
// reads no traces.

export const MAX_RUNS = 60;
export const MAX_BYTES = 128 * 2 ** 20;

const done = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

let opened = null;

function database() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("canopy", 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("about", { keyPath: "key" });
      request.result.createObjectStore("trace");
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("the database is blocked by another tab"));
  });
  return opened;
}

async function inTransaction(mode, work) {
  const transaction = (await database()).transaction(["about", "trace"], mode);
  const ended = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error ?? new Error("the browser has no room left"));
  });
  const result = await work(transaction.objectStore("about"), transaction.objectStore("trace"));
  await ended;
  return result;
}

export const listRuns = () => inTransaction("readonly", (about) => done(about.getAll()));

export async function readTrace(key) {
  const bytes = await inTransaction("readonly", (_, trace) => done(trace.get(key)));
  return bytes ? new TextDecoder().decode(bytes) : null;
}

export const describeRun = (about) => inTransaction("readwrite", async (runs) => {
  if (await done(runs.getKey(about.key))) await done(runs.put(about));
});

// Writes a run and lets the oldest go where there is no room. Gives the keys of those.
export function writeRun(about, text, { maxRuns = MAX_RUNS, maxBytes = MAX_BYTES } = {}) {
  const bytes = new TextEncoder().encode(text);
  return inTransaction("readwrite", async (runs, traces) => {
    const others = (await done(runs.getAll())).filter((run) => run.key !== about.key).sort((a, b) => a.at - b.at);
    let room = maxBytes - bytes.length - others.reduce((sum, run) => sum + run.bytes, 0);
    const gone = [];
    while (others.length && (room < 0 || others.length >= maxRuns)) {
      const oldest = others.shift();
      room += oldest.bytes;
      gone.push(oldest.key);
      runs.delete(oldest.key);
      traces.delete(oldest.key);
    }
    runs.put({ ...about, bytes: bytes.length });
    traces.put(bytes, about.key);
    return gone;
  });
}

export const deleteRun = (key) => inTransaction("readwrite", (about, trace) => (trace.delete(key), done(about.delete(key))));
export const deleteAll = () => inTransaction("readwrite", (about, trace) => (trace.clear(), done(about.clear())));
