import type { BuildProgress } from '../../../gen/assay/v1/sample_pb.js';

type Progress = { readonly case: 'progress'; readonly value: BuildProgress };
type Other = { readonly case: string | undefined };

/** Hands news to one reader, in order, and never holds up who sends them. */
export interface NewsChannel<News> extends AsyncIterable<News> {
  send(news: News): void;
  /** The reader gets what was sent before, then ends or throws. */
  close(error?: unknown): void;
}

/**
 * What a build prints has no end, and a reader may be slow: of the lines that wait for it those in the middle are left out
 * beyond `maxLines`, and the next one of its step says how many. All other news are few, and wait.
 */
export function createNewsChannel<News extends Progress | Other>(maxLines: number): NewsChannel<News> {
  const waiting: News[] = [];
  let end: { error: unknown } | 'ended' | undefined;
  let wake = (): void => {};

  const leaveOneOut = (): void => {
    for (let at = maxLines >> 1; at + 1 < waiting.length; at += 1) {
      const [line, next] = [progressOf(waiting[at]), progressOf(waiting[at + 1])];
      if (line === undefined || line.step !== next?.step) continue;
      next.omittedLineCount += line.omittedLineCount + 1;
      waiting.splice(at, 1);
      return;
    }
  };
  return {
    send(news) {
      waiting.push(news);
      if (waiting.length > maxLines) leaveOneOut();
      wake();
    },
    close(error) {
      end ??= error === undefined ? 'ended' : { error };
      wake();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        while (waiting.length > 0) yield waiting.shift() as News;
        if (end === 'ended') return;
        if (end !== undefined) throw end.error;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

function progressOf(news: Progress | Other | undefined): BuildProgress | undefined {
  return news?.case === 'progress' && 'value' in news ? news.value : undefined;
}
