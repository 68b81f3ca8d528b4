import type { Sample } from '../../shared/sample/sample-schema.ts';
import type { Command } from '../../shared/sample/verification-schema.ts';
import type { SandboxImage } from '../docker/engine.ts';
import { environmentOf } from '../sandbox/environment.ts';
import {
  agentUser,
  graderHome,
  graderUser,
  isolatedProgram,
  libraryDirectory,
  reportsDirectory,
  spawnerAddress,
  temporaryDirectory,
  testsDirectory,
} from './grading-place.ts';
import type { GuestCommand } from './guest-commands.ts';

/** Directories that belong to root in every image; the image's own PATH may name the workspace. */
const graderPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
const spawnerOutputBytes = 4_096;

/** What the commands of a sample's grading are: who runs them, where, and with which variables. */
export interface GradingCommands {
  /** Through it the tests have programs run by the agent's user. It prints `ready` when it listens. */
  readonly spawner: GuestCommand;
  prepare(command: Command): GuestCommand;
  tests(command: Command): GuestCommand;
  /** In a session, which has neither the spawner nor the library. */
  inPlace(command: Command): GuestCommand;
}

export function createGradingCommands(
  { environment }: Sample,
  image: SandboxImage,
  outputBytes: number,
): GradingCommands {
  const { workdir } = environment;
  const agent = { env: environmentOf(image, environment.env), workingDirectory: workdir, user: agentUser };
  // Nothing of the sample's or the image's variables, which may lead into the workspace.
  const own = {
    PATH: graderPath,
    HOME: graderHome,
    // Not where the agent's processes can lay something in its way.
    TMPDIR: temporaryDirectory,
    USER: 'grader',
    LOGNAME: 'grader',
    LANG: 'C.UTF-8',
    ASSAY_REPORTS: reportsDirectory,
    ASSAY_TESTS: testsDirectory,
    ASSAY_WORKSPACE: workdir,
  };
  const library = { ASSAY_ISOLATED: isolatedProgram, ASSAY_LIB: libraryDirectory };
  const tests = (command: Command, env: Readonly<Record<string, string>>): GuestCommand => {
    return { args: argumentsOf(command), env, workingDirectory: testsDirectory, user: graderUser, outputBytes };
  };
  return {
    spawner: { ...agent, args: [isolatedProgram, 'serve', spawnerAddress], outputBytes: spawnerOutputBytes },
    prepare: (command) => ({ ...agent, args: argumentsOf(command), outputBytes }),
    tests: (command) => tests(command, { ...own, ...library }),
    inPlace: (command) => tests(command, own),
  };
}

function argumentsOf(command: Command): readonly string[] {
  return typeof command === 'string' ? ['/bin/sh', '-c', command] : command;
}
