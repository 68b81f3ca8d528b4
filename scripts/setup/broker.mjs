import { existsSync } from 'node:fs';
import { installPackages } from './apt.mjs';
import { SetupFailure } from './failure.mjs';
import { findProgram, run } from './program.mjs';

/** The nats-server program to run, or undefined where NATS_URL names a broker that the user runs. */
export async function ensureBroker() {
  if (process.env.NATS_URL) {
    checkBrokerUrl(process.env.NATS_URL);
    return undefined;
  }
  const found = findProgram('nats-server');
  if (found) return found;
  await installPackages(['nats-server'], 'No nats-server was found');
  await stopInstalledService();
  const installed = findProgram('nats-server');
  if (!installed) throw new SetupFailure('nats-server was installed but cannot be found in PATH');
  return installed;
}

/** The package starts a service of the system, open to everybody on this machine: Assay runs its own and needs none. */
async function stopInstalledService() {
  if (existsSync('/run/systemd/system')) {
    await run('systemctl', ['disable', '--now', 'nats-server.service']).catch(() => {});
  } else if (existsSync('/etc/init.d/nats-server')) {
    await run('/etc/init.d/nats-server', ['stop']).catch(() => {});
  }
}

/** Throws when NATS_URL cannot be the address of a broker. */
export function checkBrokerUrl(url) {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed && ['nats:', 'tls:'].includes(parsed.protocol) && parsed.hostname) return;
  // The address may hold a password: it is not repeated here.
  throw new SetupFailure('NATS_URL is not of the form nats://user:password@host[:port]', 'unset NATS_URL');
}

export async function brokerVersion(program) {
  const text = await run(program, ['--version']);
  return /v?(\d+\.\d+\.\d+)/.exec(text)?.[1];
}
