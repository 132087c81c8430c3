/** Usage and quotas: cores by family of VM sizes, of all clusters of the workspace. */
import { Anchor, Button, NumberInput, Switch, Table, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Schemas } from "@/api/client";
import { useMay } from "@/api/session";
import { FormModal } from "@/components/form-modal";
import { Page, Section } from "@/components/page";
import { Failure, Loading } from "@/components/states";
import { plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { quotas, renewTargets, setQuota, vmSizes } from "./queries";

type Quota = Schemas["QuotaView"];

export function QuotasPage() {
  const { workspace, home } = useWorkspace();
  const may = useMay();
  const { data, error, refetch } = useQuery(quotas(workspace));
  const sizes = useQuery(vmSizes(workspace)).data?.sizes ?? [];
  const [edited, setEdited] = useState<Quota | null>(null);
  const [words, setWords] = useState("");
  const [isAll, setAll] = useState(false);
  const shown = data?.quotas.filter(
    (quota) =>
      (isAll || words || quota.limit !== null || quota.used > 0) &&
      [quota.family, ...sizes.filter(({ family }) => family === quota.family).map(({ name }) => name)]
        .join(" ")
        .toLowerCase()
        .includes(words.toLowerCase()),
  );
  return (
    <Page
      title="Usage and quotas"
      description={
        <>
          A quota limits the cores that the clusters of this workspace may have in all, by family of VM sizes.{" "}
          <Anchor component={Link} to={`${home}/compute`} size="sm" underline="always">
            Back to compute
          </Anchor>
        </>
      }
    >
      <div className={classes.line} style={{ flexWrap: "wrap", marginBottom: 12, alignItems: "center" }}>
        <TextInput
          aria-label="Search families and sizes"
          placeholder="Search families and sizes"
          value={words}
          onChange={(event) => setWords(event.currentTarget.value)}
          w={300}
        />
        <Switch label="Families without use too" checked={isAll} onChange={(event) => setAll(event.currentTarget.checked)} />
      </div>
      {error ? (
        <Failure error={error} retry={() => void refetch()} />
      ) : (
        <Section>
          {!shown ? (
            <Loading rows={6} />
          ) : (
            <Table aria-label="Quotas" className={classes.table}>
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>Family</Table.Th>
                  <Table.Th>Used</Table.Th>
                  <Table.Th>Limit</Table.Th>
                  {may("quotas.write") && <Table.Th><span className="hidden-text">Actions</span></Table.Th>}
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {shown.map((quota) => (
                  <Table.Tr key={quota.family}>
                    <Table.Td className={classes.wide}>
                      <Text size="sm" fw={500}>{quota.family}</Text>
                      <Text size="xs" c="dimmed">{sizesOf(quota.family, sizes)}</Text>
                    </Table.Td>
                    <Table.Td>
                      <Usage quota={quota} />
                    </Table.Td>
                    <Table.Td>{quota.limit === null ? "no limit" : plural(quota.limit, "core")}</Table.Td>
                    {may("quotas.write") && (
                      <Table.Td className={classes.number}>
                        <Button variant="subtle" onClick={() => setEdited(quota)} aria-label={`Change the quota of ${quota.family}`}>
                          Change
                        </Button>
                      </Table.Td>
                    )}
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          )}
          {shown && !shown.length && (
            <Text size="sm" c="dimmed" p="md">
              {words ? "Nothing matches." : "No family is used or limited. Show all of them to set a limit."}
            </Text>
          )}
        </Section>
      )}
      <Text size="sm" c="dimmed" mt="md" maw={720}>
        A cluster counts with the cores of its size times its maximum number of nodes, also while it has none. A cluster that would go beyond the
        limit is not created or enlarged; those that exist stay as they are.
      </Text>
      {edited && <QuotaForm quota={edited} workspace={workspace} onClose={() => setEdited(null)} />}
    </Page>
  );
}

function sizesOf(family: string, sizes: Schemas["VmSizeView"][]): string {
  const names = sizes.filter((size) => size.family === family).map(({ name }) => name.replace(/^Standard_/, ""));
  return names.length > 6 ? `${names.slice(0, 6).join(", ")} and ${names.length - 6} more` : names.join(", ");
}

function Usage({ quota }: { quota: Quota }) {
  const isFull = quota.limit !== null && quota.used >= quota.limit;
  return (
    <>
      <Text size="sm" c={isFull && quota.used ? "var(--studio-bad)" : undefined}>
        {plural(quota.used, "core")}
      </Text>
      {quota.limit !== null && quota.limit > 0 && (
        <div className={classes.usage} aria-hidden>
          <span style={{ width: `${Math.min(100, (quota.used / quota.limit) * 100)}%` }} data-full={isFull || undefined} />
        </div>
      )}
    </>
  );
}

function QuotaForm({ quota, workspace, onClose }: { quota: Quota; workspace: string; onClose: () => void }) {
  const [isLimited, setLimited] = useState(quota.limit !== null);
  const [cores, setCores] = useState<number | string>(quota.limit ?? quota.used);
  return (
    <FormModal
      opened
      onClose={onClose}
      title={quota.family}
      action="Save"
      isReady={!isLimited || typeof cores === "number"}
      submit={async () => {
        await setQuota(workspace, quota.family, isLimited ? Number(cores) : null);
        await renewTargets(workspace);
      }}
    >
      <Switch label="Limit the cores of this family" checked={isLimited} onChange={(event) => setLimited(event.currentTarget.checked)} />
      {isLimited && (
        <NumberInput
          label="Cores"
          description={`${plural(quota.used, "core")} used now, by the maximum of all clusters.`}
          value={cores}
          onChange={setCores}
          min={0}
          max={1_000_000_000}
          allowDecimal={false}
        />
      )}
      <Text size="sm" c="dimmed">
        Command:{" "}
        <code>
          windlass quota set "{quota.family}" {isLimited ? String(cores) : "none"}
        </code>
      </Text>
    </FormModal>
  );
}
