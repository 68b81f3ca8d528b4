import { request as httpRequest } from 'node:http';
import { SetupFailure } from './failure.mjs';

/** Where an engine listens that nobody told otherwise. */
export const defaultSocket = '/var/run/docker.sock';
const largestAnswer = 16 << 20;

/** The few calls of the Docker Engine API that set-up needs, over a Unix socket. */
export function createEngineApi(socketPath) {
  const send = (method, path, { body, headers = {}, idleMs = 60_000, onLine } = {}) =>
    new Promise((resolve, reject) => {
      const request = httpRequest({ socketPath, method, path, headers, timeout: idleMs }, (response) => {
        collect(response, onLine).then((text) => resolve({ status: response.statusCode ?? 0, text }), reject);
      });
      request.on('timeout', () => request.destroy(new Error(`no answer from the engine for ${idleMs / 1000} s`)));
      request.on('error', reject);
      if (body && typeof body.pipe === 'function') {
        body.on('error', (error) => request.destroy(error));
        body.pipe(request);
      } else request.end(body);
    });

  const json = async (method, path, value, options = {}) => {
    const body = value === undefined ? undefined : JSON.stringify(value);
    const headers = body ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {};
    const answer = await send(method, path, { ...options, body, headers });
    if (answer.status === 404) return undefined;
    if (answer.status >= 400) throw new SetupFailure(`the engine refused ${method} ${path}: ${messageOf(answer.text)}`);
    return answer.text ? JSON.parse(answer.text) : {};
  };

  return {
    socketPath,
    send,
    get: (path) => json('GET', path),
    post: (path, value, options) => json('POST', path, value, options),
    remove: (path) => json('DELETE', path),
    async answers(idleMs = 2000) {
      try {
        return (await send('GET', '/_ping', { idleMs })).status === 200;
      } catch {
        return false;
      }
    },
    /** Image pulls, imports and builds answer 200 and tell a failure in a line of the body. */
    async stream(path, options) {
      let failure;
      const answer = await send('POST', path, {
        ...options,
        onLine(line) {
          const event = parse(line);
          if (event?.error) failure = event.error;
          options?.onEvent?.(event ?? {});
        },
      });
      if (answer.status >= 400) failure = messageOf(answer.text);
      if (failure) throw new SetupFailure(`the engine said: ${failure}`);
    },
  };
}

/** Reads an answer whole, or line by line when somebody listens to the lines. */
function collect(response, onLine) {
  return new Promise((resolve, reject) => {
    let text = '';
    let rest = '';
    response.setEncoding('utf8').on('data', (part) => {
      if (text.length < largestAnswer) text += part;
      if (!onLine) return;
      const lines = (rest + part).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) if (line.trim()) onLine(line);
    });
    response.on('end', () => resolve(text));
    response.on('error', reject);
    response.on('aborted', () => reject(new Error('the engine closed the connection')));
  });
}

const messageOf = (text) => parse(text)?.message ?? text.slice(0, 400);

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
