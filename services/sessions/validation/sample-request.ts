import type { ListSamplesRequest } from '../../../gen/assay/v1/sample_pb.js';
import { checkCount, checkNoNul, checkRange, invalid, overLimit, show } from './field.ts';

const nameShape = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const versionShape = /^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$/;
const queryCharacters = 256;
const tagCount = 32;
const defaultRepetitions = 3;
const mostRepetitions = 100;

export function checkSampleName(
  request: { dataset: string; sampleId: string; version: string },
  versionField = 'version',
): void {
  checkDataset(request.dataset);
  if (!nameShape.test(request.sampleId)) {
    throw invalid('sample_id', `found ${show(request.sampleId)}`, 'the id of a sample, such as hello-fix');
  }
  if (request.version !== '' && !versionShape.test(request.version)) {
    throw invalid(versionField, `found ${show(request.version)}`, 'a version such as 1.0.0, or nothing for the newest');
  }
}

/** 0 is the default. */
export function checkRepetitions(repetitions: number): number {
  checkRange('repetition_count', repetitions, 0, mostRepetitions, 'gradings');
  return repetitions === 0 ? defaultRepetitions : repetitions;
}

export function checkListSamplesRequest(request: ListSamplesRequest): void {
  if (request.dataset !== '') checkDataset(request.dataset);
  const characters = [...request.query].length;
  if (characters > queryCharacters) throw overLimit('query', characters, queryCharacters, 'characters');
  checkNoNul('query', request.query);
  if (Buffer.byteLength(request.language) > 64) {
    throw invalid('language', `found ${show(request.language)}`, 'a language such as python');
  }
  checkCount('tags', request.tags.length, tagCount);
  for (const tag of request.tags) if (tag === '') throw invalid('tags', 'found an empty one', 'tags of samples');
}

function checkDataset(dataset: string): void {
  if (!nameShape.test(dataset)) {
    throw invalid('dataset', `found ${show(dataset)}`, 'the name of a dataset, such as examples');
  }
}
