import { type ListSamplesRequest, ListSamplesRequestSchema, type Sample } from '../../../gen/assay/v1/sample_pb.js';
import { requestDigest } from '../session/request-digest.ts';
import type { PageTokens } from '../validation/page-token.ts';
import { checkPageSize } from '../validation/session-request.ts';
import type { Match, SampleCatalog } from './sample-catalog.ts';
import { summaryOf } from './sample-view.ts';

export interface SamplePage {
  readonly samples: Sample[];
  readonly nextPageToken: string;
}

/** One page of the newest versions. A page goes on after the last sample of the page before. */
export function listSamples(
  catalog: SampleCatalog,
  tokens: PageTokens,
  request: ListSamplesRequest,
  grader: boolean,
): SamplePage {
  const bare = { ...request, pageSize: 0, pageToken: '' };
  const query = `samples ${Buffer.from(requestDigest(ListSamplesRequestSchema, bare)).toString('hex')}`;
  const after = request.pageToken === '' ? undefined : tokens.open(query, request.pageToken);
  const size = checkPageSize(request.pageSize);
  const matching = catalog
    .find(request.query)
    .filter(({ entry: { newest } }) => isWanted(newest.sample, request))
    .filter((match) => after === undefined || isAfter(match, after));
  const page = matching.slice(0, size);
  const last = page.at(-1);
  return {
    samples: page.map(({ entry }) => summaryOf(entry.newest, grader)),
    nextPageToken: last === undefined || matching.length <= size ? '' : tokens.make(query, positionOf(last)),
  };
}

function isWanted(
  sample: { dataset: string; language: string; tags: readonly string[] },
  { datasetId, language, tags }: ListSamplesRequest,
): boolean {
  if (datasetId !== '' && sample.dataset !== datasetId) return false;
  if (language !== '' && sample.language !== language.toLowerCase()) return false;
  return tags.every((tag) => sample.tags.includes(tag));
}

function positionOf({ score, entry }: Match): string {
  return `${score} ${entry.key}`;
}

/** By falling score, then by key: the order of the catalog. */
function isAfter({ score, entry }: Match, position: string): boolean {
  const space = position.indexOf(' ');
  const last = Number(position.slice(0, space));
  return score < last || (score === last && entry.key > position.slice(space + 1));
}
