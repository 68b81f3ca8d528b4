import { spawn } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { programPath } from './paths.mjs';
import { findProgram } from './program.mjs';

const patienceMs = 10_000;
const freshMs = 24 * 3_600_000;

/** pip's own view of its configuration: the indexes that are set, or the one it has built in and where that keeps files. */
const askPip = `
from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
settings = Configuration(isolated=False); settings.load()
found = [value for name, value in settings.items() if name.endswith("index-url")]
print("\\n".join(found or [PyPI.simple_url, "https://" + PyPI.file_storage_domain]))`;

const questions = [
  ['npm', ['config', 'get', 'registry']],
  ['python3', ['-c', askPip]],
  ['apt-get', ['indextargets', '--format', '$(REPO_URI)']],
];

/**
 * The hosts of the package registries that this machine is configured for: npm's, pip's and apt's. Asked of the programs
 * themselves; one that is missing or silent is passed over. They take seconds to answer, so it is kept for a day.
 */
export async function registryHosts(dataDir) {
  const kept = join(dataDir, 'registries');
  try {
    if (Date.now() - statSync(kept).mtimeMs < freshMs) return readFileSync(kept, 'utf8').split('\n').filter(Boolean);
  } catch {
    // Not asked yet.
  }
  const answers = await Promise.all(questions.map(([name, args]) => ask(name, args)));
  const hosts = hostsOf(answers.join('\n'));
  writeFileSync(kept, hosts.join('\n'), { mode: 0o600 });
  return hosts;
}

/** The hosts of all http and https URLs in a text, with a port where it is not the usual one. */
export function hostsOf(text) {
  const hosts = text.split(/\s+/).flatMap((word) => {
    const url = URL.canParse(word) ? new URL(word) : undefined;
    // An address cannot be on an allow-list, and a name that looks like one is one.
    if (!/^https?:$/.test(url?.protocol ?? '') || !/[a-z][a-z0-9-]*$/i.test(url.hostname)) return [];
    return [url.port === '' ? url.hostname : url.host];
  });
  return [...new Set(hosts)].sort();
}

function ask(name, args) {
  const program = findProgram(name);
  if (!program) return '';
  return new Promise((resolve) => {
    const env = { ...process.env, PATH: programPath(), LC_ALL: 'C.UTF-8' };
    const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'], timeout: patienceMs });
    let said = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      if (said.length < 65_536) said += text;
    });
    child.on('error', () => resolve(''));
    child.on('close', (code) => resolve(code === 0 ? said : ''));
  });
}
