import { graderDirectory } from '../docker/container-options.ts';
import { grader, sessionUser } from '../docker/container-users.ts';

/** Whoever runs what comes from the submission. */
export const agentUser = { uid: sessionUser.uid, gid: sessionUser.gid } as const;

/** Whoever runs the tests. No image has it and nothing of a submission may belong to it. */
export const graderUser = grader;

/** Where the grader's files are in the container; it alone may look into its home. */
export const graderHome = graderDirectory;
export const testsDirectory = `${graderHome}/tests`;
export const temporaryDirectory = `${graderHome}/tmp`;
export const reportsDirectory = `${graderHome}/reports`;

/** Where the slot is mounted, read-only. */
export const slotMount = '/run/assay';
export const isolatedProgram = `${slotMount}/isolated`;
export const libraryDirectory = `${slotMount}/lib`;

/** The spawner's address; abstract, so that there is no file for anybody to exchange. */
export const spawnerAddress = '@assay-agent';
