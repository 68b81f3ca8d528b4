import { get } from 'node:http';
import { text } from 'node:stream/consumers';

export interface Page {
  readonly status: number | undefined;
  readonly contentType: string;
  readonly text: string;
}

/**
 * Reads a page on a connection of its own. `fetch` sends on one that it kept, which a server ends after five idle
 * seconds: a process that was held up meanwhile has not seen that yet, and fails with "other side closed".
 */
export function getPage(url: string | URL): Promise<Page> {
  return new Promise((resolve, reject) => {
    get(url, { agent: false }, (response) => {
      const { statusCode: status, headers } = response;
      const contentType = headers['content-type'] ?? '';
      text(response).then((said) => resolve({ status, contentType, text: said }), reject);
    }).on('error', reject);
  });
}
