import { StringDecoder } from 'node:string_decoder';

/** What the engine says while it builds, read as it comes: one JSON document a line. */
export interface BuildAnswer {
  take(chunk: Buffer): void;
  /** What was wrong with a step. */
  readonly failure: string | undefined;
  /** The id of the image that was built. */
  readonly image: string | undefined;
}

const documentBytes = 1024 * 1024;
const lineCharacters = 2_000;

export function createBuildAnswer(said: (line: string) => void): BuildAnswer {
  let failure: string | undefined;
  let image: string | undefined;
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let unsaid = '';

  const read = (document: string): void => {
    const { stream, error, aux } = JSON.parse(document) as {
      stream?: unknown;
      error?: unknown;
      aux?: { ID?: unknown };
    };
    if (typeof error === 'string') failure ??= error;
    if (typeof aux?.ID === 'string') image = aux.ID;
    if (typeof stream !== 'string') return;
    const lines = (unsaid + stream).split(/\r?\n|\r/);
    unsaid = (lines.pop() ?? '').slice(-documentBytes);
    for (const line of lines) if (line !== '') said(line.slice(0, lineCharacters));
  };
  return {
    get failure() {
      return failure;
    },
    get image() {
      return image;
    },
    take(chunk) {
      const documents = (rest + decoder.write(chunk)).split('\n');
      rest = documents.pop() ?? '';
      if (rest.length > documentBytes) throw new Error(`it said a line of more than ${documentBytes} characters`);
      for (const document of documents) if (document.trim() !== '') read(document);
    },
  };
}
