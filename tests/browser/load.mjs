// Live latency with and without open pages: node load.mjs URL PAGES ROUNDS SECONDS
//
// Phases without and with pages take turns, so that whatever else the machine does falls on both alike. A page does what
// the real one does: its files, the state, every thumbnail, and the news as they come. Prints the phases as JSON, in
// milliseconds of the device's monotonic clock; scripts/load-page holds them against the trace.

import http from "node:http";

const [url, pages, rounds, seconds] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const agent = new http.Agent({ keepAlive: true, maxSockets: 100 });
const sleep = (time) => new Promise((done) => setTimeout(done, 1000 * time));

function get(path) {
  return new Promise((done, failed) => {
    http.get(new URL(path, url), { agent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part)).on("end", () => done(Buffer.concat(parts)));
    }).on("error", failed);
  });
}

const status = async () => JSON.parse(await get("/api/status"));
const now = async () => (await status()).newest.mono_ns / 1e6;

async function open(counts) {
  for (const path of ["/", "/page.css", "/page.js", "/favicon.svg"]) await get(path);
  const request = http.get(new URL("/api/live", url), { agent: false }, (answer) => {
    answer.on("data", (part) => (counts.bytes += part.length));
    answer.on("error", () => {});
  });
  request.on("error", () => {});
  for (const [category] of (await status()).gallery) await get(`/api/thumbnail/${category}`);
  return request;
}

const phases = [];
for (let round = 0; round < rounds; round += 1) {
  const alone = { pages: 0, from: await now() };
  await sleep(seconds);
  alone.until = await now();
  const counts = { bytes: 0 };
  const requests = await Promise.all(Array.from({ length: pages }, () => open(counts)));
  const watched = { pages, from: await now() };
  await sleep(seconds);
  watched.until = await now();
  watched.bytes = counts.bytes;
  requests.forEach((request) => request.destroy());
  await sleep(1);
  phases.push(alone, watched);
}
console.log(JSON.stringify(phases));
agent.destroy();
