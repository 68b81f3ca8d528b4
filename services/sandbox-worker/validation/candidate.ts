import { chmod, copyFile, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { entriesBelow } from '../../shared/sample/digest.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { adversariesOf } from './adversaries.ts';

/**
 * A submission whose grading tells whether a sample can be trusted. `honest`: the oracle with tests of its own beside it, as
 * a good agent would write them.
 */
export const adversaryPrefix = 'adversary: ';
export type CandidateName = 'empty' | 'oracle' | 'honest' | `${typeof adversaryPrefix}${string}`;

export function isAdversary(name: CandidateName): boolean {
  return name.startsWith(adversaryPrefix);
}

/** What is put into a container, and the shell text that makes a submission of it there, as the agent. */
export interface Candidate {
  readonly name: CandidateName;
  /** Below the root of the container, before anything runs in it. */
  place(upper: string): Promise<void>;
  readonly command: string;
}

/** No path of an image, and of no use to anybody: a container in which a candidate is made serves for nothing else. */
const directory = 'assay-oracle';

/** Without an oracle nothing is known that must pass. */
export function candidatesOf(folder: SampleFolder): Candidate[] {
  const nothing = async (): Promise<void> => {};
  const empty: Candidate = { name: 'empty', place: nothing, command: 'true' };
  const { oracle, language } = folder.sample;
  const adversaries = adversariesOf(folder).map(({ name, command }): Candidate => {
    const place = (upper: string): Promise<void> => placeScript(`set -e\n${command}\n`, join(upper, directory));
    return { name: `adversary: ${name}`, place, command: `sh /${directory}/given` };
  });
  if (oracle === undefined) return [empty, ...adversaries];
  const [path = ''] = Object.values(oracle);
  const place = (upper: string): Promise<void> => placeOracle(folder, path, join(upper, directory));
  const command = solve('patch' in oracle ? 'patch' : 'files' in oracle ? 'files' : 'script');
  return [
    empty,
    { name: 'oracle', place, command },
    { name: 'honest', place, command: `${command}\n${addTests(language)}` },
    ...adversaries,
  ];
}

/** As a file: forged reports of many tests are longer than an argument may be. */
async function placeScript(text: string, to: string): Promise<void> {
  await makeOpen(to);
  await writeFile(join(to, 'given'), text);
  await chmod(join(to, 'given'), 0o644);
}

async function makeOpen(path: string): Promise<void> {
  await mkdir(path);
  await chmod(path, 0o755);
}

async function placeOracle(folder: SampleFolder, path: string, to: string): Promise<void> {
  await makeOpen(to);
  for (const entry of entriesBelow(folder.entries, path)) {
    const at = join(to, 'given', posix.relative(path, entry.path));
    if (entry.kind === 'directory') await mkdir(at, { mode: 0o755 });
    else if (entry.kind === 'link') await symlink(entry.target, at);
    else {
      await copyFile(join(folder.folder, entry.path), at);
      await chmod(at, entry.executable ? 0o755 : 0o644);
    }
  }
}

function solve(kind: 'patch' | 'files' | 'script'): string {
  const given = `/${directory}/given`;
  if (kind === 'files') return `set -e; cp -R ${given}/. .`;
  if (kind === 'script') return `set -e; sh ${given}`;
  return `set -e; if command -v git >/dev/null; then git apply --whitespace=nowarn ${given}; else patch -s -p1 < ${given}; fi`;
}

const ownTests: Readonly<Record<string, readonly [name: string, text: string]>> = {
  python: [
    'test_of_my_own.py',
    'import unittest\n\n\nclass Mine(unittest.TestCase):\n    def test_mine(self):\n        self.assertTrue(True)\n',
  ],
  javascript: ['of-my-own.test.js', "'use strict';\nrequire('assert').ok(true);\n"],
  c: ['tests-of-my-own/mine.c', 'int main(void) { return 0; }\n'],
  java: ['tests-of-my-own/Mine.java', 'class Mine { public static void main(String[] args) {} }\n'],
  shell: ['tests-of-my-own.sh', '#!/bin/sh\nexit 0\n'],
};

function addTests(language: string): string {
  const [name, text] = ownTests[language] ?? ['TESTS-OF-MY-OWN', 'as I tested it\n'];
  return `mkdir -p "$(dirname ${name})"; printf %s '${text.replaceAll("'", "'\\''")}' > ${name}`;
}
