/** Secrets: names, versions and grants. Values go to the server and never come back. */
import { Alert, Button, PasswordInput, Select, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";
import { useState } from "react";

import { api, data, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queries";
import { useMay } from "@/api/session";
import { Confirm } from "@/components/confirm";
import { FormModal } from "@/components/form-modal";
import { actionsColumn } from "@/components/data-table";
import { ListPage } from "@/components/list-page";
import { Empty } from "@/components/states";
import { Ago } from "@/components/time";
import { useWorkspace } from "@/lib/workspace";
import { secrets } from "./queries";

type Secret = Schemas["SecretView"];
type Grant = Secret["granted_to"];

const GRANTS: { value: Grant; label: string }[] = [
  { value: "runs", label: "All runs" },
  { value: "named runs", label: "Runs that name it" },
  { value: "nobody", label: "No run" },
];
const W = "/api/v1/workspaces/{workspace}/secrets/{name}" as const;
const renew = (workspace: string) => queryClient.invalidateQueries({ queryKey: ["secrets", workspace] });

export function SecretsPage() {
  const { workspace } = useWorkspace();
  const may = useMay();
  const { data: found, error, refetch } = useQuery(secrets(workspace));
  const [edited, setEdited] = useState<Secret | "new" | null>(null);
  const [deleted, setDeleted] = useState<Secret | null>(null);
  const mayWrite = may("secrets.write");
  const columns: ColumnDef<Secret>[] = [
    { header: "Name", accessorKey: "name", cell: ({ row }) => <Text size="sm" fw={500}>{row.original.name}</Text> },
    { header: "Version", accessorKey: "version" },
    {
      header: "Used by",
      accessorKey: "granted_to",
      cell: ({ row }) => <GrantCell workspace={workspace} secret={row.original} mayWrite={mayWrite} />,
    },
    { header: "Set by", accessorKey: "created_by" },
    { header: "Changed", accessorKey: "changed_at", cell: ({ row }) => <Ago time={row.original.changed_at} /> },
  ];
  if (mayWrite) {
    columns.push(
      actionsColumn((row) => (
        <>
          <Button variant="subtle" onClick={() => setEdited(row)} aria-label={`New value of ${row.name}`}>
            New value
          </Button>
          <Button variant="subtle" color="red" onClick={() => setDeleted(row)} aria-label={`Delete ${row.name}`}>
            Delete
          </Button>
        </>
      )),
    );
  }
  return (
    <ListPage
      title="Secrets"
      description="Encrypted with a key outside of the database, given to the runs that may use them, redacted in logs."
      actions={mayWrite && <Button onClick={() => setEdited("new")}>Set a secret</Button>}
      rows={found?.secrets}
      error={error}
      retry={() => void refetch()}
      columns={columns}
      empty={
        <Empty title="No secrets">
          A script reads a secret by <code>run.get_secret("name")</code>. Set one here, or type{" "}
          <code>windlass secret set NAME</code>.
        </Empty>
      }
    >
      {edited && <SecretForm workspace={workspace} secret={edited === "new" ? null : edited} onClose={() => setEdited(null)} />}
      {deleted && (
        <Confirm
          opened
          onClose={() => setDeleted(null)}
          title={`Delete ${deleted.name}?`}
          action="Delete"
          run={async () => {
            await api.DELETE(W, { params: { path: { workspace, name: deleted.name } } });
            await renew(workspace);
          }}
        >
          Runs that were started keep their value. Runs that name it fail when they start.
        </Confirm>
      )}
    </ListPage>
  );
}

function GrantCell({ workspace, secret, mayWrite }: { workspace: string; secret: Secret; mayWrite: boolean }) {
  const [error, setError] = useState("");
  if (!mayWrite) return <>{GRANTS.find(({ value }) => value === secret.granted_to)?.label}</>;
  return (
    <Select
      aria-label={`Runs that may use ${secret.name}`}
      data={GRANTS}
      value={secret.granted_to}
      error={error || undefined}
      size="xs"
      w={170}
      onChange={(granted_to) => {
        setError("");
        api
          .PATCH(W, { params: { path: { workspace, name: secret.name } }, body: { granted_to: granted_to as Grant } })
          .then(() => renew(workspace))
          .catch((problem: Error) => setError(problem.message));
      }}
    />
  );
}

function SecretForm({ workspace, secret, onClose }: { workspace: string; secret: Secret | null; onClose: () => void }) {
  const [name, setName] = useState(secret?.name ?? "");
  const [value, setValue] = useState("");
  const [grant, setGrant] = useState<Grant>(secret?.granted_to ?? "runs");
  const [isShort, setShort] = useState(false);
  async function submit() {
    const body = { value, granted_to: grant, content_type: null };
    const kept = await data(api.PUT(W, { params: { path: { workspace, name } }, body }));
    await renew(workspace);
    setShort(!kept.is_masked);
    return kept.is_masked ? "done" : "stay";
  }
  return (
    <FormModal
      opened
      onClose={onClose}
      title={secret ? `New value of ${secret.name}` : "Set a secret"}
      action="Set"
      isReady={name.trim() !== "" && value !== ""}
      submit={submit}
    >
      {!secret && (
        <TextInput
          label="Name"
          description="Letters, digits, '-' and '_'."
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          required
          data-autofocus
        />
      )}
      <PasswordInput
        label="Value"
        description="No page and no request shows it again."
        value={value}
        onChange={(event) => setValue(event.currentTarget.value)}
        autoComplete="new-password"
        required
      />
      <Select label="Used by" data={GRANTS} value={grant} onChange={(each) => setGrant(each as Grant)} />
      {isShort && (
        <Alert color="yellow" role="status" title="It is set, and too short to be redacted in logs">
          Set a longer value if a script might print it.
        </Alert>
      )}
    </FormModal>
  );
}
