import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const defaultEndpoint = 'http://127.0.0.1:7070';

export interface Access {
  endpoint: string;
  apiKey?: string;
}

/** Where the server is and which key to use: from the environment, or as `npm start` in this checkout has left it. */
export function findAccess(env: Readonly<Record<string, string | undefined>>, endpoint: string | undefined): Access {
  const apiKey = env.ASSAY_API_KEY || localKey(env);
  return {
    endpoint: endpoint || env.ASSAY_ENDPOINT || defaultEndpoint,
    ...(apiKey === undefined ? {} : { apiKey }),
  };
}

/** The development key, which only its owner can read. */
function localKey(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const directory = env.ASSAY_DATA_DIR || fileURLToPath(new URL('../.assay', import.meta.url));
  try {
    return readFileSync(join(directory, 'key'), 'utf8').trim() || undefined;
  } catch {
    return undefined;
  }
}
