import { expect } from 'vitest';
import type { Behaviour } from './subject.ts';

/** What survives from command to command. */
export const state: readonly Behaviour[] = [
  [
    'the working directory stays (daytonaio/daytona#1863)',
    async (shell) => {
      await shell.ok(`mkdir -p ${shell.dir}/deep && cd ${shell.dir}/deep`);
      expect(await shell.ok('pwd')).toBe(`${shell.dir}/deep\n`);
      expect(await shell.ok('cd .. && cd - >/dev/null && pwd')).toBe(`${shell.dir}/deep\n`);
    },
  ],
  [
    'exported and plain variables stay, and only exported ones reach programs',
    async (shell) => {
      await shell.ok('export shared=1; plain=2');
      expect(await shell.ok('echo $shared $plain; sh -c \'echo "[$shared] [$plain]"\'')).toBe('1 2\n[1] []\n');
    },
  ],
  [
    'functions stay',
    async (shell) => {
      await shell.ok('greet() {\n  echo "hello $1"\n  return 3\n}');
      expect(await shell.run('greet you')).toMatchObject({ out: 'hello you\n', code: 3 });
    },
  ],
  [
    'an alias can be used by the next command',
    async (shell) => {
      await shell.ok("alias hi='echo aliased'");
      expect(await shell.ok('hi there')).toBe('aliased there\n');
    },
  ],
  [
    'options stay',
    async (shell) => {
      await shell.ok('set -o noglob');
      expect(await shell.ok('echo /*')).toBe('/*\n');
    },
  ],
  [
    'umask and limits stay',
    async (shell) => {
      await shell.ok('umask 027; ulimit -n 200');
      expect(await shell.ok('umask; ulimit -n')).toMatch(/^0?027\n200\n$/);
    },
  ],
  [
    'positional parameters stay',
    async (shell) => {
      await shell.ok('set -- a "b c" d');
      expect(await shell.ok('echo $# "$2"')).toBe('3 b c\n');
    },
  ],
  [
    'a trap stays, and is run when its time comes',
    async (shell) => {
      await shell.ok("trap 'echo caught' USR1");
      expect(await shell.ok('kill -USR1 $$; echo after')).toContain('caught\n');
    },
  ],
  [
    'background jobs stay and can be waited for',
    async (shell) => {
      await shell.ok("sh -c 'sleep 0.1; exit 7' & job=$!");
      expect((await shell.run('wait $job')).code).toBe(7);
    },
  ],
  [
    'jobs lists what an earlier command left running',
    async (shell) => {
      await shell.ok('sleep 300 &');
      // dash and ash keep no text of a job where they have no terminal.
      expect(await shell.ok('jobs')).toContain(shell.own({ dash: 'Running', ash: 'Running', others: 'sleep 300' }));
      await shell.ok('kill $!');
    },
  ],
  [
    'a background process of an earlier command lives on (gofixpoint/amika#341)',
    async (shell) => {
      const pid = (await shell.ok('sleep 300 >/dev/null 2>&1 & echo $!')).trim();
      await shell.ok('true');
      await shell.ok(`kill -0 ${pid} && kill ${pid}`);
    },
  ],
  [
    'a file that is sourced changes the shell, as activating an environment does',
    async (shell) => {
      await shell.ok(
        `mkdir -p ${shell.dir} && cd ${shell.dir} && echo 'export VIRTUAL=on; deactivate() { unset VIRTUAL; }' >activate`,
      );
      await shell.ok(shell.own({ bash: 'source ./activate', zsh: 'source ./activate', others: '. ./activate' }));
      expect(await shell.ok('echo $VIRTUAL; deactivate; echo "[$VIRTUAL]"')).toBe('on\n[]\n');
    },
  ],
  [
    'a strange IFS does not reach what runs the commands',
    async (shell) => {
      await shell.ok("IFS='/rundcomae .'");
      expect(await shell.run('(exit 5)')).toMatchObject({ code: 5, reason: 'EXITED' });
      expect(await shell.ok('echo fine')).toBe('fine\n');
    },
  ],
  [
    'a removed working directory does not stop the shell',
    async (shell) => {
      await shell.ok(`mkdir -p ${shell.dir}/gone && cd ${shell.dir}/gone && rmdir ${shell.dir}/gone`);
      expect(await shell.ok('echo still here')).toBe('still here\n');
      expect(await shell.ok('cd / && pwd')).toBe('/\n');
    },
  ],
  [
    'without PATH builtins and absolute paths still work',
    async (shell) => {
      await shell.ok('unset PATH');
      expect(await shell.ok('echo builtin; /bin/echo absolute')).toBe('builtin\nabsolute\n');
      expect((await shell.run('no-such-program-here')).code).toBe(127);
      expect(await shell.ok('PATH=/usr/bin:/bin; ls -d /')).toBe('/\n');
    },
  ],
  [
    'the environment can be emptied',
    async (shell) => {
      await shell.ok('for name in $(env | cut -d= -f1); do unset "$name" 2>/dev/null; done; true');
      expect(await shell.run('echo left; (exit 3)')).toMatchObject({ out: 'left\n', code: 3 });
    },
  ],
  [
    'the shell is the user’s: HOME, USER and a workspace',
    async (shell) => {
      expect(await shell.ok('echo $HOME $USER; pwd; id -un')).toBe('/home/agent agent\n/workspace\nagent\n');
    },
  ],
  [
    'two shells of one session do not see each other’s state',
    async (shell) => {
      await using other = await shell.session.openShell({ program: shell.shell.info.program });
      await shell.ok('cd /tmp; only_here=1');
      expect(String((await other.run('pwd; echo "[$only_here]"')).stdout)).toBe('/workspace\n[]\n');
    },
  ],
  [
    'set -u makes an unset variable an error, and the next command works (OpenHands/OpenHands#10557)',
    async (shell) => {
      await shell.ok('set -u');
      const outcome = await shell.run('echo "$never_set_variable"; echo reached');
      expect(outcome.code).not.toBe(0);
      expect(outcome.err).toContain('never_set_variable');
      expect(outcome.out).toBe('');
      expect(await shell.ok('echo fine')).toBe('fine\n');
    },
  ],
  [
    'set -x traces the command and nothing else',
    async (shell) => {
      await shell.ok('set -x');
      const { out, err } = await shell.run('echo traced');
      expect(out).toBe('traced\n');
      expect(err).toMatch(/^\S* ?echo traced\n$/m);
      // zsh names the file that it reads.
      if (shell.dialect !== 'zsh') expect(err).not.toContain('assay');
      await shell.run('set +x');
      expect((await shell.run('echo quiet')).err).toBe('');
    },
  ],
  [
    'set -v does not change what a command prints',
    async (shell) => {
      await shell.run('set -v');
      expect((await shell.run('echo verbose')).out).toBe('verbose\n');
      await shell.run('set +v');
      expect(await shell.run('echo quiet')).toMatchObject({ out: 'quiet\n', err: '' });
    },
  ],
  [
    'set -e lets commands that succeed go on',
    async (shell) => {
      await shell.ok('set -e');
      expect(await shell.ok('echo one')).toBe('one\n');
      expect(await shell.ok('if false; then :; fi; false || echo two')).toBe('two\n');
    },
  ],
  [
    'set -e and a failure end the shell, which is open again for the next command (OpenHands/OpenHands#10550)',
    async (shell) => {
      await shell.mark();
      await shell.ok('set -e');
      const outcome = await shell.run('echo before; false; echo never');
      expect(outcome).toMatchObject({ out: 'before\n', code: 1, reason: 'SHELL_EXITED', ended: true });
      await shell.expectReopened();
    },
  ],
  [
    'set -euo pipefail, where the shell has it, breaks nothing that works (OpenHands/OpenHands#10550)',
    async (shell) => {
      if (shell.dialect === 'dash') {
        // It takes e and u, then refuses the third, which by then ends it.
        await shell.mark();
        const refused = await shell.run('set -euo pipefail; echo never');
        expect(refused).toMatchObject({ code: 2, reason: 'SHELL_EXITED', ended: true, out: '' });
        expect(refused.err).toContain('pipefail');
        await shell.expectReopened();
        await shell.ok('set -eu');
        expect(await shell.ok('ls -la / >/dev/null; false | true; echo listed')).toBe('listed\n');
        return;
      }
      await shell.ok('set -euo pipefail');
      expect(await shell.ok('ls -la / >/dev/null; echo listed')).toBe('listed\n');
      expect(await shell.run('false | true')).toMatchObject({ code: 1, reason: 'SHELL_EXITED' });
    },
  ],
  [
    'a failed assignment to a readonly is an error and the next command works',
    async (shell) => {
      await shell.ok('readonly fixed=1');
      const outcome = await shell.run('fixed=2');
      expect(outcome.code).not.toBe(0);
      expect(outcome.err).toContain('fixed');
      expect(await shell.ok('echo on')).toBe('on\n');
    },
  ],
  [
    'shifting too far is an error or nothing, and the next command works',
    async (shell) => {
      await shell.run('shift 5');
      expect(await shell.ok('echo on')).toBe('on\n');
    },
  ],
  [
    'a failed redirection is an error and the shell keeps its state',
    async (shell) => {
      await shell.mark();
      const outcome = await shell.run('echo x >/no/such/directory/file');
      expect(outcome.code).not.toBe(0);
      expect(outcome.err).toContain('/no/such/directory/file');
      await shell.expectMarked();
    },
  ],
];
