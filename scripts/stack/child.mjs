import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import { lowerOomScore } from '../setup/process-table.mjs';
import { findProgram } from '../setup/program.mjs';

const longestDelayMs = 1000;
const healthyAfterMs = 1000;
/** EX_CONFIG: how a service ends that finds a bad setting. */
const badSetting = 78;
/** The oom_score_adj of services and their supervisor: where the host has no memory left, programs in sessions are killed. */
export const serviceOomScore = -900;

/**
 * A process that is started again whenever it ends, until it is told to halt. It gets TERM from the kernel when this
 * process dies, however that happens.
 */
export function createChild({ name, program, args, env, log, terminal }) {
  const setpriv = findProgram('setpriv');
  let process_;
  let wanted = false;
  let timer;
  let quickEnds = 0;
  let asked = false;
  let restarts = 0;
  let misconfigured = false;

  function launch() {
    timer = undefined;
    const output = log.open();
    const command = setpriv ? [setpriv, '--pdeathsig', 'TERM', program, ...args] : [program, ...args];
    process_ = spawn(command[0], command.slice(1), {
      // A group of its own: Ctrl-C reaches the supervisor alone, which then stops its children in order.
      detached: true,
      env,
      stdio: terminal ? ['ignore', 'inherit', 'inherit'] : ['ignore', output, output],
    });
    closeSync(output);
    lowerOomScore(process_.pid, serviceOomScore);
    const began = Date.now();
    let ended = false;
    asked = false;
    const onEnd = (code) => {
      if (ended) return;
      ended = true;
      process_ = undefined;
      misconfigured = code === badSetting;
      if (!wanted) return;
      quickEnds = asked || Date.now() - began > healthyAfterMs ? 0 : quickEnds + 1;
      restarts++;
      timer = setTimeout(launch, quickEnds === 0 ? 0 : Math.min(longestDelayMs, 25 * 2 ** quickEnds));
    };
    process_.on('exit', onEnd);
    process_.on('error', onEnd);
  }

  return {
    name,
    log,
    get pid() {
      return process_?.pid;
    },
    get restarts() {
      return restarts;
    },
    /** Whether it ended because of a setting, which starting it again does not mend. */
    get misconfigured() {
      return misconfigured;
    },
    /** How often in a row it ended within a second of its start, and nobody here had asked for it. */
    get quickEnds() {
      return quickEnds;
    },
    start() {
      if (wanted) return;
      wanted = true;
      quickEnds = 0;
      launch();
    },
    kill(signal = 'SIGKILL') {
      asked = true;
      return process_?.kill(signal) ?? false;
    },
    /** Ends it, with KILL when it does not end in time; it is started again. Resolves when it has ended. */
    async replace(graceMs) {
      asked = true;
      await end(process_, 'SIGTERM', graceMs);
    },
    /** Ends it for good, with KILL when it does not end in time. */
    async halt(signal = 'SIGTERM', graceMs = 15_000) {
      wanted = false;
      clearTimeout(timer);
      await end(process_, signal, graceMs);
    },
  };
}

async function end(running, signal, graceMs) {
  if (!running?.pid) return;
  const ended = once(running, 'exit');
  running.kill(signal);
  const killer = setTimeout(() => running.kill('SIGKILL'), graceMs);
  await ended;
  clearTimeout(killer);
}
