import { inject } from 'vitest';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Whether this is the heavy run. */
    heavy: boolean;
  }
}

/** How often a test repeats what chance decides, such as the moment of a kill: the heavy run does it more often. */
export function rounds(everyday: number, heavy: number): number {
  return inject('heavy') ? heavy : everyday;
}
