import { expect } from 'vitest';
import { timedOutBeyond } from '../timed-out.ts';
import type { Behaviour, Subject } from './subject.ts';

/** Runs into its timeout; the shell must keep what was put into it before. `here` in the text is where it has come by then. */
async function timesOut(shell: Subject, text: string): Promise<string> {
  await shell.mark();
  await shell.ok('cd /tmp');
  const outcome = await timedOutBeyond(
    (timeoutMs) => shell.run(text.replace('here', `: >${shell.dir}.here`), { timeoutMs }),
    async () => !text.includes('here') || (await shell.run(`rm ${shell.dir}.here`)).code === 0,
  );
  expect(outcome).toMatchObject({ reason: 'TIMED_OUT', ended: false });
  expect(await shell.ok('pwd')).toBe('/tmp\n');
  await shell.expectMarked();
  return outcome.out;
}

/** Timeouts and cancels, after which the shell is still itself. */
export const interruption: readonly Behaviour[] = [
  [
    'a timeout ends a program and the shell keeps directory, variables and functions (cloudflare/sandbox-sdk#438)',
    async (shell) => {
      expect(await timesOut(shell, 'echo before; here; sleep 7200; echo never')).toBe('before\n');
    },
  ],
  [
    'what was printed before a timeout is there (daytonaio/daytona#5144)',
    async (shell) => {
      expect(await timesOut(shell, 'printf partial; here; sleep 7200')).toBe('partial');
    },
  ],
  [
    'a timeout really ends the program (e2b-dev/E2B#500)',
    async (shell) => {
      const name = `720${shell.dir.slice(13)}1`;
      await timesOut(shell, `here; sleep ${name}`);
      expect((await shell.run(`pgrep -f "[s]leep ${name}$"`)).code).toBe(1);
    },
  ],
  ['a timeout ends a loop of builtins', async (shell) => void (await timesOut(shell, 'while :; do :; done'))],
  [
    'a timeout ends a loop of programs, the whole of it',
    async (shell) => {
      expect(await timesOut(shell, 'for i in 1 2 3 4; do echo $i; here; sleep 7200; done; echo never')).toBe('1\n');
    },
  ],
  [
    'a timeout ends a function that calls itself in a loop',
    async (shell) => void (await timesOut(shell, 'spin() { sleep 0.01; }; while true; do spin; done')),
  ],
  ['a timeout ends a pipeline', async (shell) => void (await timesOut(shell, 'sleep 7200 | cat'))],
  ['a timeout ends a wait for a job', async (shell) => void (await timesOut(shell, 'sleep 7200 & wait'))],
  [
    'a timeout ends a program that ignores TERM',
    async (shell) => void (await timesOut(shell, `sh -c 'trap "" TERM; while :; do sleep 1; done'`)),
  ],
  [
    'a timeout ends a shell’s own command that ignores TERM',
    async (shell) => void (await timesOut(shell, "trap '' TERM; while :; do sleep 0.1; done")),
  ],
  [
    'a timeout ends processes that left the session',
    async (shell) => {
      const name = `720${shell.dir.slice(13)}2`;
      await timesOut(shell, `setsid sleep ${name} & (setsid sh -c 'sleep ${name} &' &) ; here; sleep 7200`);
      expect((await shell.run(`pgrep -f "[s]leep ${name}$"`)).code).toBe(1);
    },
  ],
  [
    'a timeout spares what earlier commands left running (anomalyco/opencode#20403)',
    async (shell) => {
      const pid = (await shell.ok('sleep 7300 >/dev/null 2>&1 & echo $!')).trim();
      // It holds the output of its command, and makes processes while the later one runs.
      const busy = (await shell.ok('(while sleep 0.1; do :; done) & echo $!')).trim();
      await timesOut(shell, 'sleep 7200');
      await shell.ok(`kill -0 ${pid} && kill ${pid}`);
      await shell.ok(`sleep 0.3; kill -0 ${busy} && kill ${busy}`);
    },
  ],
  [
    'a timeout ends a program that waits for input',
    async (shell) => {
      await shell.mark();
      const execution = shell.shell.execute('cat', { input: true, timeoutMs: 500 });
      expect(await execution.result()).toMatchObject({ reason: 'TIMED_OUT', shellEnded: false });
      await shell.expectMarked();
    },
  ],
  [
    'a timeout under set -e ends the shell, which is opened again, and the results say so',
    async (shell) => {
      for (const text of ['sleep 7200; echo never', 'while :; do :; done']) {
        const outcome = await timedOutBeyond(
          async (timeoutMs) => {
            await shell.mark();
            await shell.ok('set -e');
            return shell.run(`echo before; ${text}`, { timeoutMs });
          },
          async ({ out }) => out !== '',
        );
        expect(outcome, text).toMatchObject({ reason: 'TIMED_OUT', out: 'before\n', ended: true });
        // The interrupt is a failure like any other, and has the code of one; in zsh, of the loop that it ended.
        expect(shell.own({ dash: [2], ash: [2], zsh: [1, 124], others: [124] })).toContain(outcome.code);
        expect(outcome.message).toContain('opened again with its initial state');
        await shell.expectReopened();
        expect(await shell.run('false; echo "no longer -e"')).toMatchObject({ out: 'no longer -e\n', code: 0 });
      }
    },
  ],
  [
    'a DEBUG trap is kept through a timeout in zsh, and lost in bash, whose timeouts need it',
    async (shell) => {
      if (shell.dialect === 'dash' || shell.dialect === 'ash') {
        expect((await shell.run("trap 'n=1' DEBUG")).err).toContain('DEBUG');
        return;
      }
      await shell.ok(`${shell.own({ bash: 'set -T; ', others: '' })}kept=1; trap ': mine' DEBUG`);
      const traps = async () => (await shell.ok('trap')).split('\n').filter((line) => line.endsWith(' DEBUG'));
      const before = await traps();
      expect(before).toHaveLength(1);
      await timesOut(shell, 'sleep 7200');
      expect(await traps()).toEqual(shell.dialect === 'bash' ? [] : before);
      expect(await shell.ok('echo $kept')).toBe('1\n');
    },
  ],
  [
    'a cancel does the same as a timeout',
    async (shell) => {
      await shell.mark();
      const execution = shell.shell.execute('echo up; sleep 7200');
      await shell.printed(execution, 'up');
      await execution.cancel();
      expect(await execution.result()).toMatchObject({ reason: 'CANCELLED', shellEnded: false });
      await shell.expectMarked();
    },
  ],
  [
    'a signal reaches the programs of the command and not the shell',
    async (shell) => {
      await shell.mark();
      const execution = shell.shell.execute(`sh -c 'echo up; exec sleep 7200'; echo "status $?"`);
      await shell.printed(execution, 'up');
      await execution.signal(15);
      let out = '';
      for await (const event of execution) if (event.type === 'stdout') out += Buffer.from(event.data).toString();
      expect(out).toBe('up\nstatus 143\n');
      await shell.expectMarked();
    },
  ],
  [
    'a shell that stopped itself is opened again, and the result says so',
    async (shell) => {
      await shell.mark();
      const outcome = await shell.run('kill -STOP $$', { timeoutMs: 300 });
      expect(outcome).toMatchObject({ reason: 'TIMED_OUT', ended: true, signal: 9 });
      expect(outcome.message).toContain('opened again');
      await shell.expectReopened();
    },
  ],
];
