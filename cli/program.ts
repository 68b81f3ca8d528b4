import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addDoctorCommand } from './commands/doctor.ts';
import { addExecCommand } from './commands/exec.ts';
import { addForkCommand } from './commands/fork.ts';
import { addInfoCommand } from './commands/info.ts';
import { addKeysCommand } from './commands/keys.ts';
import { addLogsCommand } from './commands/logs.ts';
import { addRunCommand } from './commands/run.ts';
import { addSamplesCommand } from './commands/samples.ts';
import { addSessionsCommand } from './commands/sessions.ts';
import { addShellCommand } from './commands/shell.ts';
import { addShellsCommand } from './commands/shells.ts';
import { addTranscriptCommand } from './commands/transcript.ts';
import { addVerifyCommand } from './commands/verify.ts';
import { addWorkersCommand } from './commands/workers.ts';
import type { Context } from './context.ts';
import { exitCodeHelp } from './exit-code.ts';

const settings = `
Settings:
  ASSAY_ENDPOINT       the server, http://127.0.0.1:7070 unless set
  ASSAY_API_KEY        the key; unset, the development key that npm start made in this checkout
  ASSAY_DATA_DIR       where that key is looked for, if not in .assay of the checkout
  NODE_EXTRA_CA_CERTS  for https: a file with certificates of authorities to trust beside the usual ones`;

/** The whole command line. */
export function createProgram(context: Context): Command {
  const program = new Command('assay')
    .description('Sandboxed sessions with a task in them, commands that stream, and verdicts on what was done.')
    .version(ownVersion(), '-V, --version', 'print the version of this command; assay info has that of the server')
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void context.stdout.write(text),
      writeErr: (text) => void context.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, `${context.paint.red('assay:')} `)),
    })
    .addHelpText('after', `${settings}\n${exitCodeHelp}`);
  addRunCommand(program, context);
  addExecCommand(program, context);
  addShellCommand(program, context);
  addSessionsCommand(program, context);
  addForkCommand(program, context);
  addShellsCommand(program, context);
  addLogsCommand(program, context);
  addSamplesCommand(program, context);
  addVerifyCommand(program, context);
  addTranscriptCommand(program, context);
  addKeysCommand(program, context);
  addWorkersCommand(program, context);
  addDoctorCommand(program, context);
  addInfoCommand(program, context);
  pointToHelp(program, 'assay');
  return program;
}

/** Whoever mistypes a command is sent to the help of that command. */
function pointToHelp(command: Command, words: string): void {
  command.showHelpAfterError(`  type: ${words} --help`);
  for (const below of command.commands) pointToHelp(below, `${words} ${below.name()}`);
}

function ownVersion(): string {
  const found = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string };
  return found.version;
}
