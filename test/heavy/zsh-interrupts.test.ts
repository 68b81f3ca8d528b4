import { expect, test } from 'vitest';
import { encodeFrame, type } from '../guest/frame-codec.ts';
import { useGuestContainer } from '../guest/guest-container.ts';
import { nextNumber, openShell } from '../guest/shell-driver.ts';

const guest = useGuestContainer();
const [TERM, ALL] = [15, 3];

/** Holds the machine's attention, so that the interrupts come at all moments. */
async function untilLooping(): Promise<void> {
  const { worker } = guest();
  const number = nextNumber(worker);
  const script = 'until [ -e /tmp/in ]; do :; done; rm /tmp/in';
  worker.start(number, { argv: ['sh', '-c', script], env: ['PATH=/usr/bin:/bin'] });
  await worker.frame(type.CLOSED, number);
  worker.send(encodeFrame(type.FORGET, number));
}

// zsh counts one loop too many to break out of when an interrupt meets the end of one: it did once in 750 times.
test('a zsh outlives three thousand interrupts of a loop', async () => {
  const { worker } = guest();
  for (let i = 0; i < 3000; i++) {
    const shell = await openShell(worker, { argv: ['zsh'] });
    const number = shell.start(': >/tmp/in; eval "while :; do :; done"');
    await untilLooping();
    shell.interrupt(number);
    const killing = setInterval(() => worker.signal(number, TERM, ALL), 50);
    worker.signal(number, TERM, ALL);
    const ended = await shell.ended(number);
    clearInterval(killing);
    expect(ended, `interrupt ${i}`).toMatchObject({ code: 124, flags: 0 });
    await shell.close();
  }
});
