// A scripted person at a real browser, who fills in names, passwords, consents and codes. Describes
// the last page, and takes screenshots on the way.

import path from 'node:path';

import { serveLines, tell } from './lines.mjs';
import { packagesIn } from './packages.mjs';

const { default: puppeteer } = await packagesIn('BOWLINE_BROWSER_MODULES')('puppeteer-core');

const { endpoint, pictures } = JSON.parse(process.argv[2]);
const browser = await puppeteer.connect({ browserWSEndpoint: endpoint, defaultViewport: null });

const LOOKS = {
  desktop: { width: 1280, height: 800 },
  phone: { width: 390, height: 844, deviceScaleFactor: 3, isMobile: true, hasTouch: true },
};
const PATIENCE = 20_000;

// Every visit uses a fresh browser context.
async function open(look) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  await page.setViewport(LOOKS[look]);
  const seen = { dialogs: [], said: [], steps: [], status: null, sent: null };
  page.on('dialog', (dialog) => (seen.dialogs.push(dialog.message()), dialog.dismiss()));
  page.on('console', (message) => seen.said.push(message.text()));
  page.on('pageerror', (error) => seen.said.push(String(error)));
  const isPage = (request) => request.isNavigationRequest() && request.frame() === page.mainFrame();
  page.on('request', (request) => { if (isPage(request)) [seen.sent, seen.status] = [request.url(), null]; });
  page.on('response', (response) => { if (isPage(response.request())) seen.status = response.status(); });
  return { context, page, seen };
}

// What a page asks for, recognized by its elements, and how to answer it.
const WANTS = [
  ['code', 'input[name=user_code]:not([type=hidden])', async (page, { code }) => {
    await page.type('input[name=user_code]', code);
    return '[type=submit]';
  }],
  ['confirm', 'form[id="op.deviceConfirmForm"]', async () => 'button[autofocus]'],
  ['login', 'input[name=login]', async (page, { account }) => {
    // The suggested value is already filled in.
    if (await page.$eval('input[name=login]', (input) => input.value) !== account) await page.type('input[name=login]', account);
    await page.type('input[name=password]', 'any will do');
    return '[type=submit]';
  }],
  ['consent', 'input[name=prompt][value=consent]', async () => '[type=submit]'],
];

// `cancel`: the step at which the person aborts.
async function walk({ page, seen }, { account, code, cancel, shot }) {
  for (;;) {
    const found = [];
    for (const want of WANTS) if (await page.$(want[1])) found.push(want);
    if (found.length === 0) return;
    const [step, , act] = found[0];
    if (seen.steps.length > 8) throw new Error(`no end: ${seen.steps}`);
    seen.steps.push(step);
    if (shot) await picture(page, `${shot}-${step}`);
    const next = step === cancel ? 'a[href$="/abort"]' : await act(page, { account, code });
    await Promise.all([page.waitForNavigation({ waitUntil: 'load' }), page.click(next)]);
  }
}

async function picture(page, name) {
  await page.screenshot({ path: path.join(pictures, `${name}.png`) });
}

// Describes a page in light and in dark mode.
async function describe({ page, seen }, shot) {
  const looks = {};
  for (const value of ['light', 'dark']) {
    await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
    if (shot) await picture(page, `${shot}-${value}`);
    looks[value] = await page.evaluate(() => {
      const style = (name) => getComputedStyle(document.querySelector(name) ?? document.body);
      const box = document.scrollingElement;
      return {
        ink: style('main').color,
        paper: style('main').backgroundColor,
        mark: style('.mark').color,
        overflows: box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight,
        textSize: parseFloat(style('main p:not(.mark)').fontSize),
        width: innerWidth,
      };
    });
  }
  const content = await page.evaluate(() => ({
    title: document.title,
    text: document.body.innerText,
    elements: [...document.querySelectorAll('body *')].map((element) => element.localName),
    loaded: performance.getEntriesByType('resource').map((entry) => entry.name),
  }));
  return { ...seen, ...content, looks };
}

tell({ browser: await browser.version() });
await serveLines({
  async visit({ url, look = 'desktop', shot, ...how }) {
    const visit = await open(look);
    try {
      await visit.page.goto(url, { waitUntil: 'load' });
      await walk(visit, { ...how, shot });
      return await describe(visit, shot);
    } catch (error) {
      throw new Error(`after ${visit.seen.steps.join(', ')}, at ${visit.page.url()}`, { cause: error });
    } finally {
      await visit.context.close();
    }
  },
});
