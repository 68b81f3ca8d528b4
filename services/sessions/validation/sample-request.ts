import type { ListSamplesRequest } from '../../../gen/assay/v1/sample_pb.js';
import type { SampleName } from '../../../gen/assay/v1/types_pb.js';
import { checkCount, checkNoNul, checkRange, invalid, overLimit, show } from './field.ts';

const nameShape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const versionShape = /^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$/;
const queryCharacters = 256;
const tagCount = 32;
const defaultRepetitions = 3;
const mostRepetitions = 100;

/** The name of a sample in a request's field `sample`. */
export function checkSampleName(sample: SampleName | undefined): SampleName {
  if (sample === undefined) throw invalid('sample', 'found none', 'dataset_id and sample_id of a sample');
  checkDataset('sample.dataset_id', sample.datasetId);
  if (!nameShape.test(sample.sampleId)) {
    throw invalid('sample.sample_id', `found ${show(sample.sampleId)}`, 'the id of a sample, such as hello-fix');
  }
  checkVersion(sample.version, 'nothing for the newest');
  return sample;
}

/** The same as a filter: what is empty matches all. */
export function checkSampleFilter({ datasetId, sampleId, version }: SampleName): void {
  for (const [field, name] of [
    ['sample.dataset_id', datasetId],
    ['sample.sample_id', sampleId],
  ] as const) {
    if (name !== '' && !nameShape.test(name)) throw invalid(field, `found ${show(name)}`, 'a name, or nothing for all');
  }
  checkVersion(version, 'nothing for all');
}

function checkVersion(version: string, orNothing: string): void {
  if (version === '' || versionShape.test(version)) return;
  throw invalid('sample.version', `found ${show(version)}`, `a version such as 1.0.0, or ${orNothing}`);
}

/** 0 is the default. */
export function checkRepetitions(repetitions: number): number {
  checkRange('repetition_count', repetitions, 0, mostRepetitions, 'gradings');
  return repetitions === 0 ? defaultRepetitions : repetitions;
}

export function checkListSamplesRequest(request: ListSamplesRequest): void {
  if (request.datasetId !== '') checkDataset('dataset_id', request.datasetId);
  const characters = [...request.query].length;
  if (characters > queryCharacters) throw overLimit('query', characters, queryCharacters, 'characters');
  checkNoNul('query', request.query);
  if (Buffer.byteLength(request.language) > 64) {
    throw invalid('language', `found ${show(request.language)}`, 'a language such as python');
  }
  checkCount('tags', request.tags.length, tagCount);
  for (const tag of request.tags) if (tag === '') throw invalid('tags', 'found an empty one', 'tags of samples');
}

function checkDataset(field: string, dataset: string): void {
  if (!nameShape.test(dataset)) {
    throw invalid(field, `found ${show(dataset)}`, 'the name of a dataset, such as examples');
  }
}
