import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'vitest';
import { installPackages } from '../../scripts/setup/apt.mjs';
import { runDirectory } from '../run.ts';

const run = promisify(execFile);
const patienceMs = 60_000;

/** A real terminal with a plain shell in it, typed at and looked at from outside. */
export interface Tmux {
  /** Types text and Return. */
  type(text: string): Promise<void>;
  /** Presses keys by tmux's names, such as C-c or Escape. */
  press(...keys: string[]): Promise<void>;
  resize(columns: number, rows: number): Promise<void>;
  /** Waits until the cursor stands in this column, from 0. */
  cursorIn(column: number): Promise<void>;
  /** Waits until the screen matches, and returns it. */
  shows(wanted: RegExp): Promise<string>;
  close(): Promise<void>;
}

/** Installs tmux where set-up may. */
export async function ensureTmux(): Promise<void> {
  const found = await run('tmux', ['-V']).then(
    () => true,
    () => false,
  );
  if (!found) await installPackages(['tmux'], 'tmux was not found, and assay shell is tested in it');
}

export async function openTmux(env: Readonly<Record<string, string>>): Promise<Tmux> {
  const directory = mkdtempSync(join(runDirectory(), 'tmux-'));
  const tmux = async (...args: string[]) => {
    // A socket and a configuration of its own: the person's tmux is not disturbed and does not disturb.
    const options = {
      env: { PATH: process.env.PATH, HOME: directory, LANG: 'C.UTF-8', TERM: 'xterm-256color', ...env },
    };
    return (await run('tmux', ['-f', '/dev/null', '-S', join(directory, 'socket'), ...args], options)).stdout;
  };
  const shell = ['env', 'PS1=outside> ', 'sh'];
  await tmux('new-session', '-d', '-x', '80', '-y', '24', ...shell, ';', 'set-option', '-g', 'status', 'off');
  const server = (await tmux('display-message', '-p', '#{pid}')).trim();
  return {
    type: async (text) => {
      await tmux('send-keys', '-l', text);
      await tmux('send-keys', 'Enter');
    },
    press: async (...keys) => {
      await tmux('send-keys', ...keys);
    },
    resize: async (columns, rows) => {
      await tmux('resize-window', '-x', String(columns), '-y', String(rows));
    },
    async cursorIn(column) {
      const look = async () => Number(await tmux('display-message', '-p', '#{cursor_x}'));
      await expect.poll(look, { timeout: patienceMs, interval: 50 }).toBe(column);
    },
    async shows(wanted) {
      const look = () => tmux('capture-pane', '-p');
      await expect.poll(look, { timeout: patienceMs, interval: 50 }).toMatch(wanted);
      return look();
    },
    close: async () => {
      await tmux('kill-server').catch(() => undefined);
      // It answers before it ends.
      await expect.poll(() => existsSync(`/proc/${server}`)).toBe(false);
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
