// The number of a run, made by the browser: nobody else can guess it, so nobody else can read or stop the run.

export function newTicket() {
  return crypto.randomUUID?.() ?? randomHex(); // randomUUID is missing where the page came over plain HTTP
}

export function randomHex() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
