/** The settings of a target that its kind allows to change, by the same form that it was made with. */
import { Text } from "@mantine/core";
import { useMemo, useState } from "react";

import { ApiError } from "@/api/client";
import type { Target } from "@/api/queries";
import { Equivalent } from "@/components/code";
import { FormModal } from "@/components/form-modal";
import {
  type Errors, errorsOf, readFields, type Schema, SchemaForm, toChange, updateCode, updateCommand, validate, type Values,
} from "@/components/schema-form";
import { useWorkspace } from "@/lib/workspace";
import { formatInputs } from "./format-inputs";
import { changeTarget, type Kind, renewTargets } from "./queries";
import { SlotsInput } from "./slots-input";

export function SettingsDialog({ target, kind, onClose }: { target: Target; kind: Kind; onClose: () => void }) {
  const { workspace } = useWorkspace();
  const fields = useMemo(() => readFields(kind.config_schema as Schema, "", kind.mutable_settings), [kind]);
  const [values, setValues] = useState<Values>(() => Object.fromEntries(fields.map(({ name }) => [name, target.config[name] ?? undefined])));
  const [slots, setSlots] = useState<number | null>(target.slots);
  const [refused, setRefused] = useState<Errors>({});
  const changes = toChange(fields, target.config, values);
  const problems = validate(fields, values, true);
  const hasSlots = slots !== target.slots;
  const isChanged = Object.keys(changes).length > 0 || hasSlots;

  async function save() {
    try {
      await changeTarget(workspace, target.name, { config: changes, ...(hasSlots ? { slots } : {}) });
    } catch (error) {
      if (error instanceof ApiError) setRefused(errorsOf(error.details, "config"));
      throw error;
    }
    await renewTargets(workspace);
  }

  return (
    <FormModal opened onClose={onClose} title={`Settings of ${target.name}`} action="Save" size="lg" isReady={isChanged && !Object.keys(problems).length} submit={save}>
      <Text size="sm" c="dimmed">
        Runs that are going on stay as they are. Address and credentials are changed by attaching it anew.
      </Text>
      <SchemaForm
        fields={fields}
        values={values}
        onChange={(name, value) => {
          setValues({ ...values, [name]: value });
          setRefused({});
        }}
        errors={{ ...problems, ...refused }}
        inputs={formatInputs(kind.is_this_computer)}
      />
      <SlotsInput slots={slots} onChange={setSlots} />
      {isChanged && (
        <Equivalent
          command={updateCommand(target.name, workspace, fields, changes, hasSlots ? slots : undefined)}
          python={updateCode(target.name, workspace, changes)}
        />
      )}
    </FormModal>
  );
}
