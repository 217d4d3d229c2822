// The live page and the report in a real browser: node page.mjs URL REPORT SCREENSHOTS
//
// Loads, shows frames and categories, pauses and resumes, asks nobody else, logs no error, and fits a phone and a laptop.
// Made to be started by scripts/test-browser, which runs the recording behind URL.

import assert from "node:assert/strict";
import { chromium } from "playwright-core";

const [url, report, screenshots] = process.argv.slice(2);
const SIZES = { phone: { width: 390, height: 844 }, laptop: { width: 1440, height: 900 } };
const PATIENCE = 120_000;

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});

/** A page that fails the test by an error on the console or a request to anybody else. */
async function open(address, size, colorScheme) {
  const context = await browser.newContext({ viewport: size, colorScheme, deviceScaleFactor: 1, acceptDownloads: true });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (to.protocol !== "data:" && to.origin !== new URL(address).origin) faults.push(`asks ${request.url()}`);
  });
  await page.goto(address, { waitUntil: "load" });
  return { page, context, faults };
}

const fits = (page) => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);
const text = (page, selector) => page.locator(selector).innerText();
const frames = async (page) => Number((await text(page, "#tiles div:first-child dd")).split("\n")[0]);

for (const [name, size] of Object.entries(SIZES)) {
  const { page, context, faults } = await open(url, size, name === "phone" ? "dark" : "light");
  await page.waitForFunction(() => document.getElementById("state").dataset.state === "recording");
  await page.waitForFunction(() => /^\d+$/.test(document.getElementById("category").textContent));
  await page.waitForFunction(() => {
    const picture = document.getElementById("picture");
    return !picture.hidden && picture.naturalWidth > 0;
  });
  await page.waitForFunction(() => document.querySelectorAll("#gallery li img").length > 0);
  await page.waitForFunction(() => document.querySelectorAll("#ribbon rect").length > 0);
  const before = await frames(page);
  await page.waitForFunction((n) => parseInt(document.querySelector("#tiles div:first-child dd").textContent) > n, before);
  assert.ok(await fits(page), `${name}: the page is wider than the window`);
  await page.screenshot({ path: `${screenshots}/page-${name}.png`, fullPage: name === "laptop" });

  if (name === "laptop") {
    await page.click("#pause");
    await page.waitForFunction(() => document.getElementById("state").dataset.state === "paused");
    assert.equal(await text(page, "#pause"), "Resume");
    const paused = await frames(page);
    await page.waitForTimeout(3000);
    assert.ok((await frames(page)) <= paused + 1, "nothing is looked at while paused");
    await page.click("#pause");
    await page.waitForFunction(() => document.getElementById("state").dataset.state === "recording");
    await page.waitForFunction((n) => parseInt(document.querySelector("#tiles div:first-child dd").textContent) > n + 1, paused);
    await page.click("#forget");
    await page.waitForSelector("#forget-dialog[open]");
    await page.click("#forget-cancel");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("a[href='download/frames.csv']")]);
    assert.equal(download.suggestedFilename(), "frames.csv");
    assert.ok(await download.path());
  }
  assert.deepEqual(faults, [], name);
  await context.close();
}

for (const [name, size] of Object.entries(SIZES)) {
  const { page, context, faults } = await open(`file://${report}`, size, name === "phone" ? "dark" : "light");
  assert.ok((await page.locator(".lane").count()) > 2, "the ribbon has lanes");
  assert.ok(await fits(page), `report, ${name}: wider than the window`);
  await page.screenshot({ path: `${screenshots}/report-${name}.png`, fullPage: false });
  assert.deepEqual(faults, [], `report, ${name}`);
  await context.close();
}

await browser.close();
console.log("ok");
