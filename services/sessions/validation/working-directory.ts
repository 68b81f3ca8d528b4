import { checkBytes, checkNoNul, invalid, show } from './field.ts';

const pathBytes = 4_096;

/** An absolute path, or nothing. */
export function checkWorkingDirectory(path: string): void {
  if (path === '') return;
  checkBytes('working_directory', path, pathBytes);
  checkNoNul('working_directory', path);
  if (!path.startsWith('/')) throw invalid('working_directory', `found ${show(path)}`, 'an absolute path');
}
