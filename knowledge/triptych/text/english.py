"""English for the analyzer: its stop words, and irregular forms with their base words.

The stop words are the selection of the Snowball project's English list
(https://snowballstem.org/algorithms/english/stop.txt). A query leaves them out unless it holds
nothing else.

The irregular forms are those that a stemmer cannot unite with their base: bought, mice. They are
from the lemma table of LemmInflect 0.2.3 (MIT License, copyright Brad Jascob; the table derives
from the SPECIALIST Lexicon of the U.S. National Library of Medicine), selected by
bench/irregular_forms.py. NOTICE has the licence.

A form is in the table if it is a verb's or a noun's, has one base, and Porter's stemmer gives it
another stem than the base. Forms that are words of their own are left out: nouns, verbs and
adverbs in base form (saw, left, found, felt, rose, ground, wound, lay, data), forms of several
bases (leaves, axes, analyses), auxiliaries and stop words, and some that the lexicon does not list
(born, led, staid). Nouns that hardly anybody means (drove, stuck) do not count as such. Form or
base is in the vocabulary of the embedder ``local``, which stands for frequent words, or has a
prefix before such a pair (overridden).
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Final

import Stemmer  # type: ignore[import-not-found]  # a C extension, which has no stubs

_WORDS: Final = """
i me my myself we our ours ourselves you your yours yourself yourselves he him his himself
she her hers herself it its itself they them their theirs themselves
what which who whom this that these those
am is are was were be been being have has had having do does did doing
would should could ought cannot
i'm you're he's she's it's we're they're i've you've we've they've
i'd you'd he'd she'd we'd they'd i'll you'll he'll she'll we'll they'll
isn't aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't
won't wouldn't shan't shouldn't can't couldn't mustn't
let's that's who's what's here's there's when's where's why's how's
a an the and but if or because as until while of at by for with about against between into
through during before after above below to from up down in out on off over under
again further then once here there when where why how all any both each few more most other
some such no nor not only own same so than too very
"""

ENGLISH_STOP_WORDS: Final = frozenset(_WORDS.split())


# Each base with its forms.
_TABLE: Final = """
abdomen abdomina; airman airmen; alderman aldermen; alumnus alumni; apex apices; apparatus
apparati; appendix appendices; aquarium aquaria; arboretum arboreta; arise arisen arose;
arthritis arthritides; atrium atria; auditorium auditoria; awake awoke awoken; bacterium
bacteria; baseman basemen; batsman batsmen; bear borne; beat beaten; beau beaux; become became;
beef beeves; begin began begun; behold beheld; bend bent; bid bade bidden; bite bitten; bleed
bled; blend blent; bless blest; blow blew blown; bowman bowmen; break broke broken; breed bred;
bring brought; build built; bureau bureaux; burn burnt; businessman businessmen; buy bought;
cactus cacti; calculus calculi; campus campi; catch caught; chairman chairmen; child children;
choose chose chosen; clergyman clergymen; cling clung; codex codices; come came; comes comites;
concerto concerti; consortium consortia; continuum continua; corpus corpora; cortex cortices;
craftsman craftsmen; creep crept; crisis crises; criterion criteria; curriculum curricula;
daylight daylit; deal dealt; dig dug; dilemma dilemmata; diploma diplomata; discus disci; draw
drawn drew; dream dreamt; drink drank drunk; drive driven drove; dwarf dwarves; dwell dwelt; eat
ate eaten; elf elves; emphasis emphases; enigma enigmata; equilibrium equilibria; eucalyptus
eucalypti; fall fallen; feed fed; fiat fiant; fight fought; fisherman fishermen; flee fled;
fling flung; fly flew flown; focus foci; foot feet; forbid forbad forbade forbidden; forefoot
forefeet; foreman foremen; foresee foreseen; foretell foretold; forewoman forewomen; forget
forgot forgotten; forgive forgave forgiven; forum fora; freeze froze frozen; freshman freshmen;
fungus fungi; genesis geneses; gentleman gentlemen; genus genera; get got gotten; give gave
given; go gone went; goose geese; graffito graffiti; grandchild grandchildren; grow grew grown;
gunman gunmen; gymnasium gymnasia; handful handsful; handkerchief handkerchieves; hang hung;
hear heard; heave hove; helix helices; hepatitis hepatitides; hide hid hidden; hold held; hoof
hooves; horseman horsemen; hypothesis hypotheses; index indices; iris irides; keep kept; kneel
knelt; knife knives; know knew known; lay laid; lean leant; leap leapt; learn learnt; lend lent;
libretto libretti; lie lain; light lit; lineman linemen; loaf loaves; locus loca loci; lose
lost; madman madmen; maestro maestri; make made; man men; matrix matrices; mausoleum mausolea;
maximum maxima; mean meant; meet met; memorandum memoranda; metropolis metropolides; minimum
minima; misdeal misdealt; mislay mislaid; misspend misspent; mistake mistaken mistook;
misunderstand misunderstood; momentum momenta; money monies; monsieur messieurs; mouse mice;
mouthful mouthsful; nemesis nemeses; nobleman noblemen; novella novelle; nucleus nuclei; oasis
oases; octopus octopi; outbid outbade outbidden; outbreak outbroke outbroken; outgo outgone
outwent; outgrow outgrew outgrown; outlay outlaid; outrun outran; outshine outshone; outwear
outwore outworn; overbear overborne; overcome overcame; overdraw overdrawn overdrew; overdrive
overdriven overdrove; overeat overate overeaten; overgrow overgrew overgrown; overhang overhung;
overhear overheard; overlay overlaid; overlie overlain; overpay overpaid; override overridden
overrode; overrun overran; oversee oversaw overseen; oversell oversold; oversleep overslept;
overtake overtaken overtook; overthrow overthrew overthrown; overwrite overwritten overwrote;
papyrus papyri; paradigm paradigmata; parenthesis parentheses; pay paid; pendulum pendula; penis
penes; penny pence; phenomenon phenomena; plateau plateaux; plead pled; podium podia; policeman
policemen; prove proven; quantum quanta; radius radii; rebuild rebuilt; redraw redrawn redrew;
referendum referenda; remake remade; repay repaid; rerun reran; resell resold; retake retaken
retook; retell retold; rewrite rewritten rewrote; ride ridden rode; ring rang; rise risen; roof
rooves; run ran; salesman salesmen; saw sawn; say said; scarf scarves; seaman seamen; see seen;
seek sought; self selves; sell sold; send sent; serum sera; serviceman servicemen; shake shaken
shook; shave shaven; shear shorn; shine shone; shit shat; shoe shod; show shown; shrink shrank
shrunk shrunken; sing sang sung; sink sank sunk; sit sat; slay slain; sleep slept; slide slid;
sling slung; solo soli; speak spoken; spectrum spectra; speed sped; spend spent; spill spilt;
spin spun; spoil spoilt; spokesman spokesmen; sportsman sportsmen; spring sprang sprung; stadium
stadia; stand stood; statesman statesmen; steal stole stolen; stick stuck; stigma stigmata;
stimulus stimuli; sting stung; stink stank stunk; stratum strata; strew strewn; stride stridden
strode; strike stricken struck; string strung; strive striven strove; superman supermen; swear
swore sworn; sweep swept; swell swollen; swim swam swum; swing swung; symposium symposia;
synthesis syntheses; take taken took; teach taught; tear tore torn; tell told; tempo tempi;
terminus termini; thesis theses; thrive thriven throve; throw threw thrown; tooth teeth; torso
torsi; torus tori; trauma traumata; tread trod trodden; tuberculosis tuberculoses; turf turves;
ultimatum ultimata; unbend unbent; underfeed underfed; undergo undergone underwent; underlie
underlain; underpay underpaid; undersell undersold; understand understood; undertake undertaken
undertook; underwrite underwritten underwrote; undo undid undone; unlearn unlearnt; unsay
unsaid; uphold upheld; vacuum vacua; vertex vertices; vertigo vertigines; via viae; vortex
vortices; wake woke woken; wear wore worn; weave wove woven; weep wept; werewolf werewolves;
wharf wharves; wife wives; win won; withdraw withdrawn withdrew; withhold withheld; withstand
withstood; wolf wolves; woman women; write written wrote; zinc zinked
"""


def _bases() -> dict[str, str]:
    entries = (entry.split() for entry in _TABLE.split(";"))
    return {form: base for base, *forms in entries for form in forms}


IRREGULAR_FORMS: Final = _bases()
"""Base by form."""


def irregular_forms(term: str) -> tuple[str, ...]:
    """Return the forms whose term in English is ``term``, sorted; none for most terms."""
    return _forms_by_term().get(term, ())


@cache
def _forms_by_term() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    stem = Stemmer.Stemmer("english").stemWord
    for form, base in sorted(IRREGULAR_FORMS.items()):
        found[stem(base)].append(form)
    return {term: tuple(forms) for term, forms in found.items()}
