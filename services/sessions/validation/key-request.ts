import type { CreateKeyRequest } from '../../../gen/assay/v1/key_pb.js';
import { Scope } from '../../../gen/assay/v1/key_pb.js';
import { checkCount, checkNoNul, invalid, overLimit } from './field.ts';
import { checkProject, checkRequestId } from './identifier.ts';

const descriptionCharacters = 256;

export function checkCreateKeyRequest(request: CreateKeyRequest): void {
  checkRequestId(request.requestId);
  if (request.project !== '') checkProject(request.project);
  if (request.scopes.length === 0) throw invalid('scopes', 'found none', 'at least one of agent, grader and admin');
  checkCount('scopes', request.scopes.length, 3);
  for (const scope of request.scopes) {
    if (scope === Scope.UNSPECIFIED || Scope[scope] === undefined) {
      throw invalid('scopes', `found ${scope}`, 'agent (1), grader (2) or admin (3)');
    }
  }
  const characters = [...request.description].length;
  if (characters > descriptionCharacters) {
    throw overLimit('description', characters, descriptionCharacters, 'characters');
  }
  checkNoNul('description', request.description);
}
