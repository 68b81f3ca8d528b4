/** A log file of bounded size. */
export interface LogFile {
  readonly file: string;
  open(): number;
  lastLines(count: number): string[];
  note(text: string): void;
  close(): void;
}

export function createLogFile(file: string): LogFile;
