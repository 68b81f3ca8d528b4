import type { Attack } from '../attack.ts';
import { exhaustionAttacks } from './exhaustion.ts';
import { fileAttacks } from './files.ts';
import { javaAttacks } from './java.ts';
import { javascriptAttacks } from './javascript.ts';
import { nativeAttacks } from './native.ts';
import { processAttacks } from './processes.ts';
import { pytestAttacks } from './pytest.ts';
import { pythonAttacks } from './python.ts';
import { reportAttacks } from './reports.ts';
import { repositoryAttacks } from './repository.ts';
import { shellAttacks } from './shell.ts';

/** Every attack, in the order of the table in docs/adversaries.md. */
export const attacks: readonly Attack[] = [
  ...pytestAttacks,
  ...pythonAttacks,
  ...reportAttacks,
  ...processAttacks,
  ...repositoryAttacks,
  ...javascriptAttacks,
  ...nativeAttacks,
  ...javaAttacks,
  ...shellAttacks,
  ...fileAttacks,
  ...exhaustionAttacks,
];
