import { expect } from 'vitest';
import type { Behaviour } from './subject.ts';

/** What is left running when a command ends. */
export const background: readonly Behaviour[] = [
  [
    'yes & does not hold back the result or block the shell (cloudflare/sandbox-sdk#166)',
    async (shell) => {
      await shell.mark();
      const { id } = await shell.run('yes &', { maxOutputBytes: 1000 });
      await shell.expectMarked();
      await shell.ok('kill $!; wait $! 2>/dev/null; true');
      expect((await shell.session.execution(id)).state).toBe('FINISHED');
    },
  ],
  [
    'what a background process prints belongs to its own command (daytonaio/daytona#4230)',
    async (shell) => {
      const first = await shell.run(`(while [ ! -e ${shell.dir}.go ]; do sleep 0.02; done; echo late) & echo early`);
      expect(first.out).toBe('early\n');
      expect(await shell.ok(`echo mine; touch ${shell.dir}.go; wait`)).toBe('mine\n');
      expect(await shell.all(first.id)).toBe('early\nlate\n');
    },
  ],
  [
    'a chatty server past 64 KiB goes on while other commands run, and its log can be followed',
    async (shell) => {
      // Not as fast as it can: how much comes until it is told to stop must not depend on how long that takes.
      const server =
        'i=0; while [ ! -e "$stop" ]; do i=$((i+1)); echo "request $i ----------------------------------------"; [ $((i % 100)) = 0 ] && sleep 0.01; done; echo stopped';
      const { id } = await shell.run(`stop=${shell.dir}.stop sh -c '${server}' &`);
      let seen = 0;
      const follow = async () => {
        let log = '';
        for await (const event of shell.session.attach(id, { followBackground: true })) {
          if (event.type === 'stdout') log += Buffer.from(event.data).toString('latin1');
          seen = log.length;
        }
        return log;
      };
      // It is followed while it runs, and commands run while it is followed.
      const followed = follow();
      for (let count = 0; count < 5; count++) expect(await shell.ok(`echo ${count}`)).toBe(`${count}\n`);
      while (seen <= 200_000) await shell.ok('sleep 0.05');
      expect((await shell.session.execution(id)).background).toBe(true);
      await shell.ok(`touch ${shell.dir}.stop`);
      const log = await followed;
      const lines = log.split('\n');
      expect(lines.at(-2)).toBe('stopped');
      expect(lines.slice(0, -2).findIndex((line, index) => !line.startsWith(`request ${index + 1} `))).toBe(-1);
      // Whoever comes later reads the same.
      expect((await shell.all(id)) === log).toBe(true);
    },
  ],
  ...(
    [
      ['setsid -f', 'setsid -f sleep 7100'],
      ['a double fork', '(sleep 7100 &)'],
      ['nohup', 'nohup sleep 7100 >/dev/null 2>&1 &'],
    ] as const
  ).map(
    ([name, text]): Behaviour => [
      `${name} gives the shell back at once and what it started lives on`,
      async (shell) => {
        const marked = text.replace('7100', `7100.${shell.dir.slice(13)}`);
        const pattern = marked.match(/7100[.0-9]*/)?.[0];
        expect(await shell.run(marked)).toMatchObject({ reason: 'EXITED', code: 0 });
        await shell.ok(`until pkill -f "[s]leep ${pattern}$"; do sleep 0.02; done`);
      },
    ],
  ),
  [
    'disown, where the shell has it, lets go of a job that lives on',
    async (shell) => {
      if (shell.dialect === 'dash' || shell.dialect === 'ash') {
        expect((await shell.run('disown')).code).toBe(127);
        return;
      }
      const pid = (await shell.ok('sleep 300 >/dev/null 2>&1 & echo $!; disown')).trim();
      expect(await shell.ok('jobs')).toBe('');
      await shell.ok(`kill ${pid}`);
    },
  ],
  [
    'wait waits for jobs, and for nothing of ours',
    async (shell) => {
      await shell.ok('sleep 0.05 & sleep 0.1 &');
      expect(await shell.run('wait; echo "done $?"')).toMatchObject({ out: 'done 0\n' });
      expect(await shell.run('wait; echo again')).toMatchObject({ out: 'again\n' });
    },
  ],
  [
    'a pipeline of a background and a foreground process has the exit code of its last',
    async (shell) => {
      expect(await shell.run("sleep 0.05 & echo x | sh -c 'cat >/dev/null; exit 9'")).toMatchObject({ code: 9 });
    },
  ],
  [
    'a web server in the background answers the next command',
    async (shell) => {
      const port = 20_000 + Number(shell.dir.slice(13));
      await shell.ok(`mkdir -p ${shell.dir} && cd ${shell.dir} && echo served >index.html`);
      await shell.ok(`python3 -m http.server --bind 127.0.0.1 ${port} >/dev/null 2>&1 &`);
      const script = `until curl -sf http://127.0.0.1:${port}/; do sleep 0.05; done`;
      expect(await shell.ok(script, { timeoutMs: 30_000 })).toBe('served\n');
      await shell.ok('kill $!');
    },
  ],
];
