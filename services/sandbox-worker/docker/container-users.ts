/** The user every session runs as, as the session sees it. */
export const sessionUser = { uid: 1000, gid: 1000, name: 'agent' } as const;

/** Whose the tests and reports are while something is graded. */
export const grader = { uid: 64_990, gid: 64_990 } as const;
