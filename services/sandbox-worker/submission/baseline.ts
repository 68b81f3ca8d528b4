import { type BytePath, join } from './byte-path.ts';
import { type ManifestEntry, readManifest } from './manifest.ts';
import type { TreeEntry } from './tree-entry.ts';

export interface BaselineNode {
  readonly entry: TreeEntry;
  readonly children: ReadonlyMap<BytePath, BaselineNode>;
}

/** The tree of the image, as far as a submission is concerned with it. */
export interface Baseline {
  at(path: BytePath): BaselineNode | undefined;
}

interface GrowingNode extends BaselineNode {
  readonly children: Map<BytePath, GrowingNode>;
}

/** No manifest names the root itself, and nobody but root may change it. */
const root = { kind: 'directory', mode: 0o755, uid: 0, gid: 0, size: 0, content: '' } as const;

/** Made of entries that come after the directories they are in. */
export function createBaseline(entries: readonly ManifestEntry[]): Baseline {
  const nodes = new Map<BytePath, GrowingNode>([['', { entry: root, children: new Map() }]]);
  for (const [path, entry] of entries) {
    const node: GrowingNode = { entry, children: new Map() };
    nodes.set(path, node);
    const slash = path.lastIndexOf('/');
    nodes.get(path.slice(0, Math.max(slash, 0)))?.children.set(path.slice(slash + 1), node);
  }
  return { at: (path) => nodes.get(path) };
}

const remembered = 4;
const loaded = new Map<string, Baseline>();

/** What a manifest says about a directory; the latest few are remembered. A manifest never changes. */
export function loadBaseline(manifest: string, imageId: string, directory: BytePath): Baseline {
  const key = JSON.stringify([manifest, imageId, directory]);
  const baseline = loaded.get(key) ?? createBaseline(readManifest(manifest, imageId, directory));
  loaded.delete(key);
  loaded.set(key, baseline);
  for (const oldest of loaded.keys()) if (loaded.size > remembered) loaded.delete(oldest);
  return baseline;
}

/** Whether something below the node, by its path, is such. */
export function someBelow(node: BaselineNode, path: BytePath, is: (path: BytePath) => boolean): boolean {
  for (const [name, child] of node.children) {
    const at = join(path, name);
    if (is(at) || someBelow(child, at, is)) return true;
  }
  return false;
}
