import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

const answerMs = 2_000;
const largestAnswer = 1 << 20;

/** One request to the broker of this machine, on a connection of its own. Resolves to the text of the answer. */
export function askBroker({ port, user, password }, subject) {
  const inbox = `_INBOX.${randomBytes(12).toString('hex')}`;
  const options = JSON.stringify({ user, pass: password, verbose: false, pedantic: false, name: 'assay-supervisor' });
  return new Promise((resolve, reject) => {
    let said = Buffer.alloc(0);
    const socket = connect({ host: '127.0.0.1', port });
    const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${answerMs} ms`)), answerMs);
    socket.on('connect', () =>
      socket.write(`CONNECT ${options}\r\nSUB ${inbox} 1\r\nPUB ${subject} ${inbox} 0\r\n\r\n`),
    );
    socket.on('data', (chunk) => {
      said = Buffer.concat([said, chunk]);
      const answer = findMessage(said);
      if (answer === undefined && said.length < largestAnswer) return;
      resolve(answer);
      socket.destroy();
    });
    socket.on('error', reject);
    socket.on('close', () => {
      clearTimeout(timer);
      reject(new Error('the broker closed the connection'));
    });
  });
}

/** The payload behind `MSG <subject> <number> [reply] <bytes>`. Undefined: it has not come yet. */
function findMessage(said) {
  const text = said.toString('latin1');
  const head = /^MSG \S+ \S+ +(?:\S+ +)?(\d+)\r\n/m.exec(text);
  if (!head) return undefined;
  const start = head.index + head[0].length;
  const end = start + Number(head[1]);
  return said.length < end ? undefined : said.toString('utf8', start, end);
}
