#include "tools/chorus-fuse/options.h"

#include "chorus/batching_rule.h"
#include "chorus/pass.h"

namespace chorus {
namespace {

std::vector<std::string> names() {
  std::vector<std::string> found;
  for (const Pass& pass : allPasses()) {
    if (pass.optional) found.push_back(pass.name);
  }
  for (const RuleRow& row : allRules()) found.push_back(row.op);
  return found;
}

}  // namespace

void addFuseOptions(CommandLine& line, FuseOptions& options) {
  CLI::App& app = line.app;
  app.add_option("members", options.members, "TorchScript files, or @list.txt with one a line")
      ->required();
  app.add_option("-o,--output", options.output, "the fused file");
  app.add_option("--input", options.inputs,
                 "dtype and sizes of a model input, in order: f32[N,3,32,32]");
  app.add_option("--example", options.example,
                 "data file whose arrays give the inputs' shapes and the batch of --verify");
  app.add_option("--keys", options.keys,
                 "arrays of --example: the inputs in order, then the target (default x,y)");
  app.add_option("--replicate", options.replicate, "K copies of one member")
      ->transform(integerFrom(1, 1'000'000));
  app.add_option("--init", options.init, "weights of the copies: as they are, or drawn anew")
      ->check(oneOf({"keep", "reset"}))
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "K seeds of --init reset");
  addTrainingOptions(app, options.training);
  app.add_flag("--plan", options.plan, "print what is fused and what is not, and write nothing");
  app.add_option(
         "--batch-size", options.batch_size,
         "rows of the step whose memory --plan and --report estimate (default: the example's)")
      ->transform(integerFrom(1));
  app.add_flag("--group", options.group,
               "members that differ form groups: FUSED.0.pt, ... and the manifest FUSED.json");
  app.add_flag("--partial", options.partial,
               "members that differ in places are fused elsewhere; each keeps its own code there");
  app.add_flag(
      "--mixed-momentum", options.mixed_momentum,
      "batch norms with momentum None (the mean over all batches) beside numbers are alike");
  app.add_option("--share", options.share,
                 "keep one copy of the tensors whose names match (with * and ?), not trained");
  app.add_option("--check", options.check,
                 "prove this fused file against the members again, and write nothing");
  app.add_option("--report", options.report, "write plan, certificate and decisions to FILE.json");
  app.add_option("--mode", options.mode, "what a trace's train and eval flags mean")
      ->check(oneOf({"follow", "as-traced"}))
      ->capture_default_str();
  app.add_option("--disable", options.disabled, "switch off a pass or a rule");
  app.add_flag("--verify{1}", options.verify_steps,
               "train N steps fused and member by member, and compare (default: 1)")
      ->transform(integerFrom(1));
  options.verify_steps = 1;  // add_flag starts at zero
  app.add_flag("--no-verify", options.no_verify, "do not");
  app.add_option("--rtol", options.rtol, "relative tolerance of --verify")->capture_default_str();
  app.add_option("--atol", options.atol, "absolute tolerance of --verify")->capture_default_str();
}

void checkFuseOptions(const FuseOptions& options) {
  if (!options.check.empty()) {
    if (!options.output.empty() || options.plan || options.group || options.partial ||
        options.replicate > 0) {
      throw Refused(usage("--check goes with members and --input only"));
    }
    return;
  }
  if (options.partial && options.group) {
    throw Refused(usage("--partial and --group both say what becomes of members that differ"));
  }
  if (options.partial && options.replicate > 0) {
    throw Refused(usage("--partial: the copies of --replicate do not differ"));
  }
  if (options.output.empty() && !options.plan) {
    throw Refused(
        usage("missing option '--output'").helpWith("-o fused.pt, or --plan to write nothing"));
  }
  if (options.batch_size > 0 && !options.plan && options.report.empty()) {
    throw Refused(usage("--batch-size goes with --plan or --report")
                      .helpWith("chorus-run takes the batch size that is trained with"));
  }
  if (!options.example.empty() && !options.inputs.empty()) {
    throw Refused(usage("--example and --input both give the shapes of the inputs"));
  }
  if (options.example.empty() && !options.keys.empty()) {
    throw Refused(usage("--keys goes with --example"));
  }
  if (options.replicate > 0 && options.members.size() != 1) {
    throw Refused(usage("--replicate takes one member, and there are " +
                        std::to_string(options.members.size())));
  }
  if (options.replicate == 0 && (options.init != "keep" || !options.seeds.empty())) {
    throw Refused(usage("--init and --seeds go with --replicate"));
  }
  if ((options.init == "reset") != !options.seeds.empty()) {
    throw Refused(usage("--init reset and --seeds go together"));
  }
  const std::vector<std::string> known = names();
  for (const std::string& name : options.disabled) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string near = nearest(name, known);
    throw Refused(usage("--disable: there is no pass or rule '" + name + "'" +
                        (near.empty() ? "" : "; did you mean '" + near + "'?")));
  }
}

}  // namespace chorus
