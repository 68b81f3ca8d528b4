/** The Node for services, tests and commands, or undefined if the machine has none that is new enough. */
export function findNode(): string | undefined;
/** Where npm puts the Node of our optional dependencies. */
export function packagedNode(): string;
export const leastNode: number;
