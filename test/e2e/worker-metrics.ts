import { expect } from 'vitest';
import { freePort } from '../../scripts/stack/port.mjs';
import { getPage } from '../http-page.ts';

/** A worker's metrics, by name and labels, without the prefix that all have. */
export type Scraped = ReadonlyMap<string, number>;

/** Where a worker serves its metrics, also when it was started again: what they say is true now, not a heartbeat ago. */
export interface MetricsPlace {
  /** The setting of the worker. */
  readonly env: { readonly ASSAY_WORKER_METRICS_LISTEN: string };
  readonly url: string;
  /** Waits for a worker that is being started. */
  scrape(): Promise<Scraped>;
}

export async function chooseMetricsPlace(): Promise<MetricsPlace> {
  const address = `127.0.0.1:${await freePort()}`;
  const url = `http://${address}/metrics`;
  return {
    env: { ASSAY_WORKER_METRICS_LISTEN: address },
    url,
    async scrape() {
      let text = '';
      await expect
        .poll(async () => {
          text = await getPage(url).then(
            (page) => page.text,
            () => '',
          );
          return text;
        })
        .not.toBe('');
      return parse(text);
    },
  };
}

function parse(text: string): Scraped {
  const samples = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    samples.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at).replace('assay_worker_', ''), Number(line.slice(at + 1))];
    }),
  );
}
