import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import type { SampleStore } from '../../shared/store/sample-store.ts';
import { wholeArchive } from './sample-archive.ts';

/** Puts the contents of samples where workers find them. */
export interface SampleShelf {
  /** The whole folder, hidden tests included, is there under its content digest when this resolves. */
  provide(folder: SampleFolder): Promise<void>;
}

export function createSampleShelf(store: SampleStore): SampleShelf {
  const storing = new Map<string, Promise<void>>();
  const storeUnlessThere = async (folder: SampleFolder): Promise<void> => {
    const { content } = folder.digests;
    if (!(await store.has(content))) await store.put(content, wholeArchive(folder));
  };
  return {
    provide(folder) {
      const { content } = folder.digests;
      const running = storing.get(content);
      if (running !== undefined) return running;
      const stored = storeUnlessThere(folder).finally(() => storing.delete(content));
      storing.set(content, stored);
      return stored;
    },
  };
}
