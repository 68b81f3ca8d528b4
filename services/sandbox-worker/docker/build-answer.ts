import { StringDecoder } from 'node:string_decoder';

/** What the engine says while it builds, read as it comes: one JSON document a line. */
export interface BuildAnswer {
  take(chunk: Buffer): void;
  /** What was wrong with a step. */
  readonly failure: string | undefined;
  /** The id of the image that was built. */
  readonly image: string | undefined;
  /** Containers in which steps ran. */
  readonly containers: readonly string[];
  /** What steps made, in order. */
  readonly layers: readonly string[];
}

const documentBytes = 1024 * 1024;
const lineCharacters = 2_000;

export function createBuildAnswer(said: (line: string) => void, made: (layer: string) => void): BuildAnswer {
  const containers: string[] = [];
  const layers: string[] = [];
  let failure: string | undefined;
  let image: string | undefined;
  const decoder = new StringDecoder('utf8');
  let rest = '';
  let unsaid = '';
  let ofBase = false;

  const hear = (line: string): void => {
    const step = /^Step \d+\/\d+ : (\w+)/.exec(line)?.[1];
    if (step !== undefined) ofBase = step.toUpperCase() === 'FROM';
    const container = /^ ---> Running in ([0-9a-f]{12,64})$/.exec(line)?.[1];
    if (container !== undefined) containers.push(container);
    const layer = /^ ---> ([0-9a-f]{12,64})$/.exec(line)?.[1];
    // What a stage begins with is not the build's.
    if (layer !== undefined && !ofBase) {
      layers.push(layer);
      made(layer);
    }
    said(line.slice(0, lineCharacters));
  };
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
    for (const line of lines) if (line !== '') hear(line);
  };
  return {
    containers,
    layers,
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
