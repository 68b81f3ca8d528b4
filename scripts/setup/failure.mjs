/** A failure that the person at the terminal can act on: what was found, and what to type. */
export class SetupFailure extends Error {
  name = 'SetupFailure';

  constructor(found, type) {
    super(type ? `${found}\n  type: ${type}` : found);
    this.found = found;
    this.type = type;
  }
}

/** Ends a script: a known failure is told in its own words, anything else keeps its stack. */
export function reportAndExit(error) {
  process.stderr.write(`\nassay: ${error instanceof SetupFailure ? error.message : (error?.stack ?? error)}\n`);
  process.exit(1);
}
