/** What a path of a tree is. `other`: a device, a FIFO, a socket. */
export type EntryKind = 'file' | 'directory' | 'symlink' | 'other';

/** All that counts of a path beside its name. Times, extended attributes and hard links do not. */
export interface TreeEntry {
  readonly kind: EntryKind;
  /** The lower twelve bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Of a regular file, else 0. */
  readonly size: number;
  /** The SHA-256 of a regular file in hex, the target of a symbolic link (one character a byte), else ''. */
  readonly content: string;
}

export const permissionBits = 0o777;
export const setIdBits = 0o6000;

/** The bits of a mode that a submission has: of a link none, of anything else the permissions. */
export function takenMode(kind: EntryKind, mode: number): number {
  return kind === 'symlink' ? permissionBits : mode & permissionBits;
}

/** The same but for the content. */
export function sameAttributes(a: TreeEntry, b: Omit<TreeEntry, 'content'>): boolean {
  return (
    a.kind === b.kind &&
    takenMode(a.kind, a.mode) === takenMode(b.kind, b.mode) &&
    a.uid === b.uid &&
    a.gid === b.gid &&
    (a.kind !== 'file' || a.size === b.size)
  );
}
