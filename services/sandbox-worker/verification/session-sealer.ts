import type { MessageInitShape } from '@bufbuild/protobuf';
import { durationFromMs } from '@bufbuild/protobuf/wkt';
import type { SealSubmissionResponseSchema } from '../../../gen/assay/internal/v1/worker_pb.js';
import { Assurance } from '../../../gen/assay/v1/types_pb.js';
import { DomainError } from '../../shared/domain-error.ts';
import type { SampleFolder } from '../../shared/sample/read-sample.ts';
import { needsWhole, runsInPlace, weakest } from '../../shared/sample/run-plan.ts';
import type { Admission } from '../host/admission.ts';
import type { Meter } from '../meter.ts';
import type { SampleCache } from '../sample/sample-cache.ts';
import type { SampleImages } from '../sample/sample-images.ts';
import type { RecordKeeper } from '../sandbox/record-keeper.ts';
import type { Sandboxes } from '../sandbox/sandboxes.ts';
import { rulesOf } from '../submission/rules.ts';
import type { Sealer } from '../submission/seal.ts';
import type { ProjectSubmissions } from './shared-submissions.ts';

export interface SessionSealerDeps {
  readonly sandboxes: Pick<Sandboxes, 'sealSource'>;
  readonly records: Pick<RecordKeeper, 'get'>;
  readonly samples: SampleCache;
  readonly images: Pick<SampleImages, 'builtDigest'>;
  readonly sealer: Sealer;
  readonly submissions: ProjectSubmissions;
  readonly meter: Pick<Meter, 'stoodStill'>;
  readonly admission: Pick<Admission, 'checkWork'>;
  /** Whether this worker grades; a run at SHARED can be made by no other. */
  readonly grades: boolean;
  /** Whether it has the containers' overlay directories, without which it can take no more than the working directory. */
  readonly hasLayers: boolean;
}

/** Seals what a session has changed, by the rules of its sample. The signal ends it, and nothing is left of it then. */
export type SessionSealer = (
  project: string,
  sessionId: string,
  required: Assurance,
  signal?: AbortSignal,
) => Promise<MessageInitShape<typeof SealSubmissionResponseSchema>>;

export function createSessionSealer(deps: SessionSealerDeps): SessionSealer {
  const { sandboxes, records, samples, images, sealer, submissions, meter } = deps;
  return async (project, sessionId, required, signal) => {
    deps.admission.checkWork();
    const sample = (await records.get(project, sessionId))?.session?.sample;
    if (sample === undefined) {
      const message = `session ${sessionId} was made from no sample, so there is nothing to grade it by`;
      throw new DomainError('NO_SAMPLE', message, { session_id: sessionId });
    }
    const folder = await samples.folder(sample.contentDigest);
    const assurance = assuranceOf(folder);
    checkAssurance(assurance, required, folder);
    const { environment, verification } = folder.sample;
    const inPlace = runsInPlace(verification);
    if (inPlace && !deps.grades) {
      const message = `${folder.sample.dataset}/${folder.sample.id} runs tests in the session itself (SHARED), and its worker does not grade`;
      throw new DomainError('VERIFICATION_NOT_OFFERED', message);
    }
    if (!deps.hasLayers && (inPlace || needsWhole(verification))) {
      const message = `${folder.sample.dataset}/${folder.sample.id} has tests at FORK or SHARED, for which its worker needs root on its host`;
      throw new DomainError('VERIFICATION_NOT_OFFERED', message);
    }
    const rules = rulesOf(environment.workdir, verification);
    const source = sandboxes.sealSource(project, sessionId);
    const sealed = await sealer.seal(source, rules, submissions(project), {
      whole: needsWhole(verification),
      signal,
    });
    meter.stoodStill(sealed.stillMs / 1_000);
    const { content, image, verification: grading } = folder.digests;
    const digests = { sample: content, image: images.builtDigest(image), verification: grading };
    const pauseDuration = durationFromMs(Math.round(sealed.stillMs));
    if (sealed.kind === 'invalid') {
      const { reason, message } = sealed.finding;
      return { digests, submission: { pauseDuration }, assurance, inPlace, violation: `${reason}: ${message}` };
    }
    const { digest, whole = '', bytes, files, deletions } = sealed;
    return {
      digests: { ...digests, submission: digest, fileSystem: whole },
      submission: { sizeBytes: BigInt(bytes), fileCount: files, deletionCount: deletions, pauseDuration },
      assurance,
      inPlace,
    };
  };
}

/** The weakest level among the tests that must pass. */
function assuranceOf({ sample: { verification } }: SampleFolder): Assurance {
  const needed = [verification.fail_to_pass, verification.pass_to_pass];
  return Assurance[weakest(needed.flatMap((role) => role?.assurance ?? []))];
}

/** The numbers grow as the levels get weaker. */
function checkAssurance(found: Assurance, required: Assurance, { sample }: SampleFolder): void {
  if (required === Assurance.UNSPECIFIED || found <= required) return;
  const message = `required_assurance: found ${Assurance[required]}, and ${sample.dataset}/${sample.id} reaches ${Assurance[found]}; require that, or use another sample`;
  throw new DomainError('ASSURANCE_NOT_REACHED', message, { field: 'required_assurance', reached: Assurance[found] });
}
